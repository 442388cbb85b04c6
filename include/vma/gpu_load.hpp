#pragma once

#include <vma/location.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace vma::inline v1 {

/// Load of one GPU as reported by NVML, for all processes together. Values that NVML does not
/// report are not set.
struct GpuLoad {
  Location at;
  std::optional<double> kernels;  ///< Fraction of time with a running kernel, 0 to 1.
  std::optional<double> memory;   ///< Fraction of time with memory reads or writes, 0 to 1.
  std::optional<std::size_t> memory_used_bytes;  ///< Including other processes and the driver.
  std::optional<std::size_t> memory_total_bytes;
  /// Bytes per second between the last two samples, over all links.
  std::optional<double> nvlink_sent_bytes_s, nvlink_received_bytes_s;  ///< Payload.
  std::optional<double> pcie_sent_bytes_s,
      pcie_received_bytes_s;  ///< Not set if the counters have 32 bits.
};

struct GpuLoads {
  /// `starting`: the first sample has not arrived yet.
  enum class State { off, starting, on };
  State state = State::off;
  std::string reason;                ///< Why it is off, or the first unavailable value.
  std::chrono::nanoseconds age{-1};  ///< Age of the sample; negative if there is none.
  std::vector<GpuLoad> gpus;         ///< Empty if there is no sample.
};

}  // namespace vma::inline v1
