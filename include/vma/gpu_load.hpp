#pragma once

#include <vma/location.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace vma::inline v1 {

/// What NVML says of one GPU, of all processes together. What it does not say is not set.
struct GpuLoad {
  Location at;
  std::optional<double> kernels;  ///< Part of the time in which a kernel ran, 0 to 1.
  std::optional<double> memory;   ///< Part in which memory was read or written, 0 to 1.
  std::optional<std::size_t> memory_used_bytes;   ///< Bytes, other processes' and the driver's too.
  std::optional<std::size_t> memory_total_bytes;  ///< Bytes.
  /// Bytes a second, all links together, between the last two samples.
  std::optional<double> nvlink_sent, nvlink_received;  ///< Payload.
  std::optional<double> pcie_sent, pcie_received;  ///< Not set where the counters are of 32 bits.
};

struct GpuLoads {
  /// `starting`: the first sample is on its way.
  enum class State { off, starting, on };
  State state = State::off;
  std::string reason;                ///< Why it is off, or the first value that is not had.
  std::chrono::nanoseconds age{-1};  ///< Of the sample; negative where there is none.
  std::vector<GpuLoad> gpus;         ///< Empty where there is no sample.
};

}  // namespace vma::inline v1
