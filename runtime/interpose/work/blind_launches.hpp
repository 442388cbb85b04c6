#pragma once

#include "base/process_exit.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vma::interpose {

/// How many launches are blind: their parameters show no memory that can move, so what they use is
/// unknown. A GPU is blind while most of its latest launches are, and one of them was within
/// `memory_ns`. Any thread; no lock.
class BlindLaunches {
 public:
  static constexpr std::int64_t memory_ns = 10'000'000'000;

  /// Never destroyed: the program launches until the process ends.
  static BlindLaunches& get() noexcept { return only<BlindLaunches>(); }

  /// So many kernels were launched on the GPU that show what they use, and so many that do not.
  void note(int gpu, std::uint32_t shown, std::uint32_t blind) noexcept;
  bool is_blind(int gpu) const noexcept;
  /// Whether another GPU is blind.
  bool any_besides(int gpu) const noexcept;

 private:
  static constexpr int gpus_max = 64;
  struct alignas(64) Gpu {
    std::atomic<std::uint64_t> counts = 0;  // Those that show in the low half, the others above.
    std::atomic<std::int64_t> last_blind_ns = 0;
  };

  friend Immortal<BlindLaunches>;
  BlindLaunches() = default;

  std::atomic<int> gpus_ = 0;  // Behind the last one with a launch.
  std::array<Gpu, gpus_max> of_gpu_;
};

}  // namespace vma::interpose
