#pragma once

#include "base/clock.hpp"
#include "telemetry/nvml_library.hpp"

#include <vma/gpu_load.hpp>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace vma {

/// A GPU of the runtime, and the UUID by which any library knows it.
struct NamedGpu {
  Location at;
  std::string uuid;
};

/// Turns values of the library into loads. One thread.
class GpuLoadReader {
 public:
  /// Requires: all arguments outlive it. Throws: Error if the library knows none of the GPUs.
  GpuLoadReader(const NvmlLibrary& library, const std::vector<NamedGpu>& gpus, Clock& clock);

  /// Reads everything once. A value that fails, or is implausible, is not set; `reason` names the
  /// first. State `off` if there are none at all.
  GpuLoads read();

 private:
  static constexpr std::size_t counters = 4;
  struct Gpu {
    Location at;
    NvmlLibrary::Device device = nullptr;
    std::string why_not;  // If the library does not know it.
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
