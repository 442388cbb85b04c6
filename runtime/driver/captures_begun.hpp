#pragma once

#include "base/process_exit.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>

namespace vma {

/// Whether any stream of the process may have begun to capture, and whether one captures now. Until
/// one has begun, a context can be waited for with cuCtxSynchronize, which would end captures. Any
/// thread.
class CapturesBegun {
 public:
  static CapturesBegun& of_process() noexcept {
    static Immortal<CapturesBegun> only;
    return *only;
  }

  /// The program calls `begins` before each capture from now on. `any`: one may have begun before.
  void will_be_told(bool any) noexcept {
    State unknown = State::unknown;
    state_.compare_exchange_strong(unknown, any ? State::some : State::none);
  }
  /// A capture is about to begin. Blocks: before the first ones, while a context is waited for, but
  /// for two seconds at most, since its work may wait for the calling thread.
  void begins() noexcept {
    State known = State::none;
    if (state_ == State::some) return;
    std::unique_lock lock(waits_, std::defer_lock);
    if (state_.compare_exchange_strong(known, State::beginning) || known == State::beginning) {
      static_cast<void>(lock.try_lock_for(std::chrono::seconds(2)));
    }
    state_ = State::some;
  }

  /// How many streams capture, as far as the process lets itself be told, has changed.
  void note_open(int change) noexcept { open_ += change; }
  bool any_open() const noexcept { return open_ > 0; }

  /// Around a wait for a context. False: a capture may have begun.
  class Wait {
   public:
    explicit Wait(CapturesBegun& captures) : captures_(captures), lock_(captures.waits_) {}
    bool none_has() const noexcept { return captures_.state_ == State::none; }

   private:
    const CapturesBegun& captures_;
    const std::shared_lock<std::shared_timed_mutex> lock_;
  };

 private:
  enum class State { unknown, none, beginning, some };
  std::atomic<State> state_{State::unknown};
  std::atomic<int> open_{0};
  std::shared_timed_mutex waits_;
};

}  // namespace vma
