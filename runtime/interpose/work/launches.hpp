#pragma once

#include <cuda.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vma::interpose {

/// On a clock that never goes back.
inline std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Time that may be spent on something: some at first, and a share of the time that passes. Any
/// thread; no lock.
class TimeBudget {
 public:
  /// One part in `share` of the time that passes, and never more than `most_ns` at once.
  TimeBudget(std::int64_t most_ns, std::int64_t share) noexcept
      : most_ns_(most_ns), share_(share), left_ns_(most_ns), filled_ns_(now_ns()) {}

  /// Whether any is left.
  bool has_some() noexcept {
    const std::int64_t now = now_ns();
    const std::int64_t passed = now - filled_ns_.exchange(now, std::memory_order_relaxed);
    // The remainder is lost, which makes the share a little smaller.
    const std::int64_t gained = passed / share_;
    const std::int64_t left = left_ns_.fetch_add(gained, std::memory_order_relaxed) + gained;
    if (left > most_ns_) left_ns_.store(most_ns_, std::memory_order_relaxed);
    return left > 0;
  }
  void spend(std::int64_t ns) noexcept { left_ns_.fetch_sub(ns, std::memory_order_relaxed); }

  /// Spends the time that this exists.
  class Spending {
   public:
    explicit Spending(TimeBudget& budget) noexcept : budget_(budget), begin_ns_(now_ns()) {}
    ~Spending() { budget_.spend(now_ns() - begin_ns_); }
    Spending(const Spending&) = delete;
    Spending& operator=(const Spending&) = delete;

   private:
    TimeBudget& budget_;
    const std::int64_t begin_ns_;
  };

 private:
  const std::int64_t most_ns_;
  const std::int64_t share_;
  std::atomic<std::int64_t> left_ns_;
  std::atomic<std::int64_t> filled_ns_;
};

/// How many launches are blind: their parameters show no memory that can move, so what they use is
/// unknown. A GPU is blind while most of its latest launches are, and one of them was within
/// `memory_ns`. Any thread; no lock.
class BlindLaunches {
 public:
  static constexpr std::int64_t memory_ns = 10'000'000'000;

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

  std::atomic<int> gpus_ = 0;  // Behind the last one with a launch.
  std::array<Gpu, gpus_max> of_gpu_;
};

// --- Launches that overlap

/// Whether the launch may begin before the kernel in front of it has ended (programmatic dependent
/// launch). Such a kernel has to wait, by itself, before it reads what that one writes.
bool may_overlap(const CUlaunchConfig& config) noexcept;

/// The configuration of a launch that may overlap, changed so that it does not.
class SerialLaunch {
 public:
  explicit SerialLaunch(const CUlaunchConfig& config) noexcept;
  SerialLaunch(const SerialLaunch&) = delete;
  SerialLaunch& operator=(const SerialLaunch&) = delete;

  const CUlaunchConfig* config() const noexcept { return &config_; }

 private:
  static constexpr std::size_t attributes_max = 32;  // CUDA 13 has 18 kinds.

  CUlaunchConfig config_;  // Unchanged if it has more.
  std::array<CUlaunchAttribute, attributes_max> attributes_;
};

/// Kernels of other libraries that are known to read too early when they overlap. As long as all
/// memory is local, they nearly always read what they should; memory that lies elsewhere makes the
/// kernel in front so slow that they do not, and they crash. Any thread; no lock.
class EarlyReaders {
 public:
  /// Returns null if it is unknown. `function` may be a CUkernel, too.
  using NameOf = const char* (*)(CUfunction function) noexcept;

  explicit EarlyReaders(NameOf name_of) noexcept : name_of_(name_of) {}
  EarlyReaders(const EarlyReaders&) = delete;
  EarlyReaders& operator=(const EarlyReaders&) = delete;

  bool has(CUfunction function) noexcept;
  /// Functions were unloaded: others may get their handles.
  void forget() noexcept;

 private:
  static bool is_known(std::string_view name) noexcept;

  static constexpr std::size_t places_count = 256;

  const NameOf name_of_;
  // The last function at each place; the lowest bit tells whether it is one.
  std::array<std::atomic<std::uintptr_t>, places_count> places_{};
};

}  // namespace vma::interpose
