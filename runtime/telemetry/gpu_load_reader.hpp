#pragma once

#include "base/clock.hpp"

#include <vma/telemetry.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vma {

/// The part of NVIDIA's management library that vmart uses. Includes none of its headers; the
/// source file declares the few types needed.
///
/// Opened by name and never closed, because it may have threads. One thread at a time. Any call may
/// take milliseconds, and much longer if a GPU is lost.
class NvmlLibrary {
 public:
  using Device = void*;
  struct Utilisation {
    unsigned kernels_percent = 0, memory_percent = 0;
  };
  struct MemoryInfo {
    std::uint64_t total_bytes = 0, used_bytes = 0;
  };
  /// Counters that increase until they wrap.
  enum class Counter : unsigned {
    nvlink_sent_kib = 138,  // The library's numbers; payload of all links together.
    nvlink_received_kib = 139,
    pcie_sent_bytes = 197,
    pcie_received_bytes = 198,
  };
  struct CounterValue {
    Counter counter{};
    std::optional<std::uint64_t> value;  ///< Unset if this GPU has no such counter.
    unsigned bits = 0;  ///< Width of the value, if set. It differs between drivers.
  };

  /// Opens and initialises the library. Throws: Error{unsupported} if it is missing, lacks a call
  /// or does not start.
  explicit NvmlLibrary(const std::string& file);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  const std::string& file() const noexcept { return file_; }

  // All throw Error{driver_failure}: with the library's own code, or because an answer is invalid.
  /// `uuid` is "GPU-..." or "MIG-...", as the driver reports it.
  Device device(const std::string& uuid) const;
  Utilisation utilisation(Device device) const;
  MemoryInfo memory(Device device) const;
  /// Fills in the values of the named counters.
  void read(Device device, std::span<CounterValue> counters) const;

 private:
  struct Calls;
  void require(const char* call, int code) const;

  const std::string file_;
  std::unique_ptr<const Calls> calls_;
};

/// A GPU of the runtime, and the UUID that identifies it in any library.
struct NamedGpu {
  Place at;
  std::string uuid;
};

/// Reads the library's values and converts them to loads. One thread.
class GpuLoadReader {
 public:
  /// Requires: all arguments outlive it. Throws: Error if the library knows none of the GPUs.
  GpuLoadReader(const NvmlLibrary& library, const std::vector<NamedGpu>& gpus, Clock& clock);

  /// Reads everything once. Leaves out values that fail or are implausible; `reason` names the
  /// first. The state is `off` if there are no values at all.
  GpuLoads read();

 private:
  static constexpr std::size_t counters = 4;
  struct Gpu {
    Place at;
    NvmlLibrary::Device device = nullptr;
    std::string why_not;  // Set if the library does not know the GPU.
    TimePoint counted_at{-1};
    std::array<std::optional<std::uint64_t>, counters> counted;
  };

  GpuLoad read(Gpu& gpu, std::string& reason) const;
  void read_throughput(Gpu& gpu, GpuLoad& load) const;

  const NvmlLibrary& library_;
  Clock& clock_;
  std::vector<Gpu> gpus_;
};

}  // namespace vma
