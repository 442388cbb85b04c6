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

/// The thread of the scheduler: drains telemetry every millisecond (ten where nothing comes), and
/// ticks the policy. A hint and a move's end wake it.
class SchedulerLoop {
 public:
  SchedulerLoop(Driver& driver, Scheduler& scheduler, std::chrono::nanoseconds drain,
                std::chrono::nanoseconds tick);
  /// As `stop`.
  ~SchedulerLoop();

  /// The thread begins. `drained` is called on it after each drain. Once.
  void start(std::function<void()> drained);

  /// For what else lives on the thread. Requires: handlers do not block for long.
  boost::asio::io_context& context() noexcept;
  /// Has the thread drain as soon as it can. Any thread; never blocks.
  void wake() noexcept;
  /// Ends the thread. Blocks: until what runs on it has returned.
  void stop() noexcept;

 private:
  struct Timers;  // Asio's; every user of the runtime's parts would compile it with them.

  void run() noexcept;
  void wait_to_drain();
  void wait_to_tick();
  void drain();
  void tick(TimePoint wait_began);

  Driver& driver_;
  Scheduler& scheduler_;
  std::function<void()> drained_;  // Constant once started.
  const std::chrono::nanoseconds drain_, tick_;
  const std::unique_ptr<Timers> timers_;
  std::atomic<bool> woken_{false};
  // The thread's own:
  bool drain_waits_ = false, tick_waits_ = false;  // A timer has its handler.
  int quiet_ = 0;                                  // Drains that found nothing, one after another.
  std::chrono::steady_clock::time_point next_tick_;
  std::unique_ptr<Task> task_;
};

}  // namespace vma
