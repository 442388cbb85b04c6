#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace vma {

/// How many bytes each launch of a reader reads, so that a batch of launches takes about
/// `batch_time`: a live move of the memory that is read waits for all launches in progress. One
/// thread.
class LaunchPace {
 public:
  static constexpr std::size_t batch = 8;  ///< Number of launches in progress at once.
  static constexpr std::uint64_t launch_bytes_min = std::uint64_t{2} << 20;
  static constexpr std::uint64_t launch_bytes_max = std::uint64_t{256} << 20;
  static constexpr std::chrono::nanoseconds batch_time = std::chrono::milliseconds(1);

  /// For the next batch. A multiple of `launch_bytes_min`.
  std::uint64_t launch_bytes() const noexcept { return launch_bytes_; }
  /// Reports that a batch, possibly with fewer launches, has read so many bytes in this time.
  void adapt(std::uint64_t bytes, std::chrono::nanoseconds took) noexcept;

 private:
  std::uint64_t launch_bytes_ = launch_bytes_min;
};

}  // namespace vma
