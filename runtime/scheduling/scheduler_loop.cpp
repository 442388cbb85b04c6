#include "scheduling/scheduler_loop.hpp"

#include "scheduling/scheduler.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {
namespace {

namespace asio = boost::asio;

/// After this many drains that found nothing, the loop polls at a tenth of the rate.
constexpr int quiet_after = 100;
constexpr int quiet_factor = 10;
/// Pause of the thread after a failure.
constexpr std::chrono::milliseconds failure_pause(10);

asio::steady_timer::duration of_timer(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<asio::steady_timer::duration>(time);
}

}  // namespace

struct SchedulerLoop::Timers {
  asio::io_context context{1};
  asio::steady_timer drain{context}, tick{context};
};

SchedulerLoop::SchedulerLoop(Driver& driver, Scheduler& scheduler, std::chrono::nanoseconds drain,
                             std::chrono::nanoseconds tick)
    : driver_(driver),
      scheduler_(scheduler),
      drain_(drain),
      tick_(tick),
      timers_(std::make_unique<Timers>()) {}

asio::io_context& SchedulerLoop::context() noexcept {
  return timers_->context;
}

void SchedulerLoop::start(std::function<void()> drained) {
  drained_ = std::move(drained);
  scheduler_.wake_with([this] { wake(); });
  next_tick_ = asio::steady_timer::clock_type::now();
  task_ = driver_.executor().spawn("vmart sched", [this] { run(); });
}

SchedulerLoop::~SchedulerLoop() {
  stop();
}

void SchedulerLoop::stop() noexcept {
  if (!task_) return;
  scheduler_.wake_with({});
  timers_->context.stop();
  task_->join();
  task_.reset();
}

void SchedulerLoop::wake() noexcept {
  if (woken_.exchange(true)) return;
  try {
    asio::post(timers_->context, [this] { timers_->drain.cancel(); });
  } catch (const std::exception&) {  // Out of memory: the timer will do.
    woken_ = false;
  }
}

/// An exception from a handler ends neither the thread nor the process: only that handler is lost,
/// and a timer left without one gets a new one. Handlers, not coroutines: if a wait is out of
/// memory, Asio destroys the waiting coroutine.
void SchedulerLoop::run() noexcept {
  while (!timers_->context.stopped()) {
    try {
      if (!drain_waits_) wait_to_drain();
      if (!tick_waits_) wait_to_tick();
      timers_->context.run();
    } catch (const std::exception& error) {
      log(LogLevel::error, "the scheduler's thread continues after an error: {}", error.what());
      boost::system::error_code ignored;
      asio::steady_timer(timers_->context, failure_pause).wait(ignored);
    }
  }
}

void SchedulerLoop::wait_to_drain() {
  // Reports from here on wake the thread again.
  const auto pause = woken_.exchange(false) ? std::chrono::nanoseconds(0)
                     : quiet_ < quiet_after ? drain_
                                            : drain_ * quiet_factor;
  timers_->drain.expires_after(of_timer(pause));
  timers_->drain.async_wait([this](const boost::system::error_code&) {
    drain_waits_ = false;
    drain();
    wait_to_drain();
  });
  drain_waits_ = true;
}

void SchedulerLoop::wait_to_tick() {
  // Missed ticks are not made up for.
  next_tick_ = std::max(next_tick_ + of_timer(tick_), asio::steady_timer::clock_type::now());
  timers_->tick.expires_at(next_tick_);
  const TimePoint begin = driver_.clock().now();
  timers_->tick.async_wait([this, begin](const boost::system::error_code&) {
    tick_waits_ = false;
    tick(begin);
    wait_to_tick();
  });
  tick_waits_ = true;
}

void SchedulerLoop::drain() {
  woken_ = false;
  ProcessExit::hold_back();
  try {
    quiet_ = scheduler_.drain() ? 0 : std::min(quiet_ + 1, quiet_after);
  } catch (const std::exception& error) {  // Out of memory: the next drain may succeed.
    log(LogLevel::error, "the scheduler could not collect the reported uses: {}", error.what());
  }
  if (drained_) drained_();
}

void SchedulerLoop::tick(TimePoint wait_began) {
  driver_.clock().waited(wait_began + tick_);  // A virtual clock follows.
  ProcessExit::hold_back();
  try {
    scheduler_.tick(asio::steady_timer::clock_type::now() - next_tick_ > tick_);
  } catch (const std::exception& error) {
    log(LogLevel::error, "a tick of the scheduler failed: {}", error.what());
  }
}

}  // namespace vma
