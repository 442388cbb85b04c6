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

/// Kernels that were loaded in advance to be unloaded, once each, by id of their context. Loading
/// one waits for the context's work and may block launches of other threads until then; unloading
/// one only waits.
///
/// So a load beside a stopped stream, or beside settling work that waits for one, returns only once
/// these continue, and blocks launches that stop other streams. Code that stops streams makes loads
/// wait (`Pause`).
///
/// Thread-safe. The lock is not held while a kernel is loaded.
class SpareKernels {
 public:
  /// The most that are kept for a context.
  static constexpr std::size_t kept_max = 8;
  /// A load that takes longer has waited for work, or for a compiler.
  static constexpr TimePoint quick = std::chrono::milliseconds(1);

  /// Makes loads wait, for a scope.
  class Pause {
   public:
    /// Blocks: for loads in progress, at most for `limit`.
    Pause(SpareKernels& kernels, Clock& clock, std::chrono::nanoseconds limit);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

    /// False: a load is still in progress.
    bool complete() const noexcept { return complete_; }

   private:
    SpareKernels& kernels_;
    const bool complete_;
  };

  /// The instance of the process, whose primary contexts outlive a driver: unloading at its end
  /// would wait for work of the program that may never end, so the next driver uses the kernels.
  /// Never destroyed.
  static SpareKernels& of_process();

  /// A kernel of the context: a spare one, or one that is loaded now. If that load was quick, so
  /// that the context is idle, more are loaded and kept, until one is slow or fails, or loads have
  /// to wait. Throws: what the first load throws. Blocks: while loads are paused, for a load.
  KernelHandle take(std::uint64_t context_id, const Clock& clock,
                    const std::function<KernelHandle()>& load);
  /// For a context that may end before its kernels are used. Throws and blocks: as `take`.
  KernelHandle take_unkept(const std::function<KernelHandle()>& load);
  std::size_t count(std::uint64_t context_id) const;

 private:
  struct Kept {
    std::vector<KernelHandle> kernels;
    bool filling = false;  // By one thread, so that there are never more than `kept_max`.
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
