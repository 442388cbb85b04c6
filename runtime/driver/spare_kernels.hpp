#pragma once

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "driver/driver.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace vma {

/// Kernels that were loaded ahead to be unloaded, once each, by id of their context. To load one
/// waits for the context's work and may keep other threads from launching there until then; to
/// unload one only waits.
///
/// So a load beside a stopped stream, or beside settling work that waits for one, returns only once
/// these go on, and keeps the stops of other streams from being launched. Whoever stops streams has
/// loads wait (`Pause`).
///
/// Thread-safe. The lock is not held while a kernel is loaded.
class SpareKernels {
 public:
  /// Kept of a context at most.
  static constexpr std::size_t kept_max = 8;
  /// A load that takes longer has waited for work, or for a compiler.
  static constexpr TimePoint quick = std::chrono::milliseconds(1);

  /// Loads wait, for a scope.
  class Pause {
   public:
    /// Blocks: for loads that are under way, at most for `limit`.
    Pause(SpareKernels& kernels, Clock& clock, std::chrono::nanoseconds limit);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

    /// False: a load goes on.
    bool complete() const noexcept { return complete_; }

   private:
    SpareKernels& kernels_;
    const bool complete_;
  };

  /// Of the process, whose primary contexts outlive a driver: to unload them at its end would wait
  /// for work of the program that may never end, so the next driver uses them up. Never destroyed.
  static SpareKernels& of_process();

  /// A kernel of the context: a spare one, else one that is loaded now. Where that load was quick,
  /// so that the context is at rest, more are loaded and kept, until one is slow or fails, or loads
  /// are to wait. Throws: what the first load throws. Blocks: while loads are paused, for a load.
  KernelHandle take(std::uint64_t context_id, const Clock& clock,
                    const std::function<KernelHandle()>& load);
  /// For a context that may end before its kernels are used. Throws and blocks: likewise.
  KernelHandle take_unkept(const std::function<KernelHandle()>& load);
  std::size_t count(std::uint64_t context_id) const;

 private:
  struct Kept {
    std::vector<KernelHandle> kernels;
    bool filling = false;  // By one thread, so that they do not become more than `kept_max`.
  };

  KernelHandle load_now(const std::function<KernelHandle()>& load);
  void fill(std::uint64_t context_id, const Clock& clock,
            const std::function<KernelHandle()>& load);
  bool keep(std::uint64_t context_id, KernelHandle kernel);
  bool pause(Clock& clock, std::chrono::nanoseconds limit);
  void resume() noexcept;

  mutable Mutex mutex_;
  Condition changed_;  // `pauses_` or `loading_`.
  std::map<std::uint64_t, Kept> kept_ VMART_GUARDED_BY(mutex_);
  int pauses_ VMART_GUARDED_BY(mutex_) = 0;
  int loading_ VMART_GUARDED_BY(mutex_) = 0;
};

}  // namespace vma
