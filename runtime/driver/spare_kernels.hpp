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

/// Kernels that were loaded in advance, each to be unloaded once, by id of their context. Loading
/// one waits for the context's work and may block launches of other threads until then; unloading
/// one only waits.
///
/// A load during a stop, or during work that waits for a stopped stream, returns only once the stop
/// ends, and until then blocks launches that stop other streams. Therefore, code that stops streams
/// makes loads wait (`Pause`).
///
/// Thread-safe. The lock is not held while a kernel is loaded.
class SpareKernels {
 public:
  /// Maximum number of kernels kept per context.
  static constexpr std::size_t kept_max = 8;
  /// A load that takes longer has waited for work or for a compiler.
  static constexpr TimePoint quick = std::chrono::milliseconds(1);

  /// Makes loads wait while it exists.
  class Pause {
   public:
    /// Blocks: until loads in progress have ended, for at most `limit`.
    Pause(SpareKernels& kernels, Clock& clock, std::chrono::nanoseconds limit);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

    /// False if a load is still in progress.
    bool complete() const noexcept { return complete_; }

   private:
    SpareKernels& kernels_;
    const bool complete_;
  };

  /// The instance of the process, whose primary contexts outlive a driver. Unloading the kernels
  /// when a driver is destroyed would wait for work of the program that may never end, so the next
  /// driver uses them. Never destroyed.
  static SpareKernels& of_process();

  /// Returns a kernel of the context: a spare one, or one that is loaded now. If that load was
  /// quick, and the context therefore idle, loads and keeps more until one is slow or fails, or
  /// loads are paused. Throws: what the first load throws. Blocks: for a load; while loads are
  /// paused.
  KernelHandle take(std::uint64_t context_id, const Clock& clock,
                    const std::function<KernelHandle()>& load);
  /// For a context that may end before its kernels are used. Throws and blocks: like `take`.
  KernelHandle take_unkept(const std::function<KernelHandle()>& load);
  std::size_t count(std::uint64_t context_id) const;

 private:
  struct Kept {
    std::vector<KernelHandle> kernels;
    // Set by one thread at a time, so that there are never more than `kept_max`.
    bool filling = false;
  };

  KernelHandle load_now(const std::function<KernelHandle()>& load);
  void fill(std::uint64_t context_id, const Clock& clock,
            const std::function<KernelHandle()>& load);
  bool keep(std::uint64_t context_id, KernelHandle kernel);
  bool pause(Clock& clock, std::chrono::nanoseconds limit);
  void resume() noexcept;

  mutable Mutex mutex_;
  Condition changed_;  // Signals changes of `pauses_` and `loading_`.
  std::map<std::uint64_t, Kept> kept_ VMART_GUARDED_BY(mutex_);
  int pauses_ VMART_GUARDED_BY(mutex_) = 0;
  int loading_ VMART_GUARDED_BY(mutex_) = 0;
};

}  // namespace vma
