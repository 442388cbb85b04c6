#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace vma {

/// The part of NVIDIA's management library that is needed here. Uses no header of it: the few types
/// are declared in the source file.
///
/// Opened by name and never closed, since it may have threads. One thread at a time. Any call may
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
  /// Counters that rise until they wrap.
  enum class Counter : unsigned {
    nvlink_sent_kib = 138,  // Numbers of the library: payload, of all links together.
    nvlink_received_kib = 139,
    pcie_sent_bytes = 197,
    pcie_received_bytes = 198,
  };
  struct CounterValue {
    Counter counter{};
    std::optional<std::uint64_t> value;  ///< Not set if this GPU has no such counter.
    unsigned bits = 0;                   ///< Its width, if it is set: drivers differ.
  };

  /// Opens and initialises it. Throws: Error{unsupported} if it is missing, lacks a call or does
  /// not start.
  explicit NvmlLibrary(const std::string& file);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  const std::string& file() const noexcept { return file_; }

  // All throw Error{driver_failure} with the library's own code, and for an invalid answer.
  /// "GPU-..." or "MIG-...", as the driver reports it.
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

}  // namespace vma
