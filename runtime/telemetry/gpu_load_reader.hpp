#pragma once

#include "base/clock.hpp"
#include "telemetry/nvml_library.hpp"

#include <vma/gpu_load.hpp>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace vma {

/// A GPU of the runtime, and the name by which any library knows it.
struct NamedGpu {
  Location at;
  std::string uuid;
};

/// Makes loads of what the library says. One thread.
class GpuLoadReader {
 public:
  /// Requires: what it is given lives longer. Throws: Error where the library knows no GPU of them.
  GpuLoadReader(const NvmlLibrary& library, const std::vector<NamedGpu>& gpus, Clock& clock);

  /// Asks for everything once. A value that fails, or makes no sense, is not set; `reason` names
  /// the first. State `off` where there is none at all.
  GpuLoads read();

 private:
  static constexpr std::size_t counters = 4;
  struct Gpu {
    Location at;
    NvmlLibrary::Device device = nullptr;
    std::string why_not;  // The library does not know it.
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
