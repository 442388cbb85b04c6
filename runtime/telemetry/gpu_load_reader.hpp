#pragma once

#include "base/clock.hpp"
#include "telemetry/nvml_library.hpp"

#include <vma/gpu_load.hpp>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace vma {

/// A GPU of the runtime, and the UUID that identifies it in any library.
struct NamedGpu {
  Location at;
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
    Location at;
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
