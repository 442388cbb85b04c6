#pragma once

#include "base/executor.hpp"
#include "driver/driver.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

namespace boost::asio {
class io_context;
}

namespace vma {

class Scheduler;

/// The thread of the scheduler: collects telemetry every millisecond (every ten if nothing
/// arrives), and ticks the policy. Hints and ended moves wake it.
class SchedulerLoop {
 public:
  SchedulerLoop(Driver& driver, Scheduler& scheduler, std::chrono::nanoseconds collect_every,
                std::chrono::nanoseconds tick);
  /// Calls `stop`.
  ~SchedulerLoop();

  /// Starts the thread. `collected` is called on it after each look. Once.
  void start(std::function<void()> collected);

  /// For other handlers on this thread. Requires: handlers do not block for long.
  boost::asio::io_context& context() noexcept;
  /// Makes the thread collect as soon as it can. Any thread; never blocks.
  void wake() noexcept;
  /// Ends the thread. Blocks: until its current handler has returned.
  void stop() noexcept;

 private:
  struct Timers;  // Asio's; every user of the runtime's parts would compile it with them.

  void run() noexcept;
  void wait_to_collect();
  void wait_to_tick();
  void collect();
  void tick(TimePoint wait_began);

  Driver& driver_;
  Scheduler& scheduler_;
  std::function<void()> collected_;  // Constant once started.
  const std::chrono::nanoseconds collect_every_, tick_;
  const std::unique_ptr<Timers> timers_;
  std::atomic<bool> woken_{false};
  // State of the thread:
  bool collect_waits_ = false, tick_waits_ = false;  // The timer has its handler.
  int quiet_ = 0;                                    // Consecutive looks that found nothing.
  std::chrono::steady_clock::time_point next_tick_;
  std::unique_ptr<Task> task_;
};

}  // namespace vma
