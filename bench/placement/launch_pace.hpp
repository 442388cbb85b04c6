#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace vma {

/// How many bytes each launch of a reader reads, so that a batch of them takes about
/// `batch_time`: a live move of what is read waits for all that is under way. One thread's.
class LaunchPace {
 public:
  static constexpr std::size_t batch = 8;  ///< Launches that are under way at once.
  static constexpr std::uint64_t launch_bytes_min = std::uint64_t{2} << 20;
  static constexpr std::uint64_t launch_bytes_max = std::uint64_t{256} << 20;
  static constexpr std::chrono::nanoseconds batch_time = std::chrono::milliseconds(1);

  /// Of the next batch. A multiple of `launch_bytes_min`.
  std::uint64_t launch_bytes() const noexcept { return launch_bytes_; }
  /// A batch, perhaps with fewer launches, has read so much in so long.
  void adapt(std::uint64_t bytes, std::chrono::nanoseconds took) noexcept;

 private:
  std::uint64_t launch_bytes_ = launch_bytes_min;
};

}  // namespace vma
