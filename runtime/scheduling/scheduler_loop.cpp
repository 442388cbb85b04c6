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

/// After this many looks that found nothing, the loop polls at a tenth of the rate.
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
  asio::steady_timer collect{context}, tick{context};
};

SchedulerLoop::SchedulerLoop(Driver& driver, Scheduler& scheduler,
                             std::chrono::nanoseconds collect_every, std::chrono::nanoseconds tick)
    : driver_(driver),
      scheduler_(scheduler),
      collect_every_(collect_every),
      tick_(tick),
      timers_(std::make_unique<Timers>()) {}

asio::io_context& SchedulerLoop::context() noexcept {
  return timers_->context;
}

void SchedulerLoop::start(std::function<void()> collected) {
  collected_ = std::move(collected);
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
    asio::post(timers_->context, [this] { timers_->collect.cancel(); });
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
      if (!collect_waits_) wait_to_collect();
      if (!tick_waits_) wait_to_tick();
      timers_->context.run();
    } catch (const std::exception& error) {
      log(LogLevel::error, "the scheduler's thread continues after an error: {}", error.what());
      boost::system::error_code ignored;
      asio::steady_timer(timers_->context, failure_pause).wait(ignored);
    }
  }
}

void SchedulerLoop::wait_to_collect() {
  // Reports from here on wake the thread again.
  const auto pause = woken_.exchange(false) ? std::chrono::nanoseconds(0)
                     : quiet_ < quiet_after ? collect_every_
                                            : collect_every_ * quiet_factor;
  timers_->collect.expires_after(of_timer(pause));
  timers_->collect.async_wait([this](const boost::system::error_code&) {
    collect_waits_ = false;
    collect();
    wait_to_collect();
  });
  collect_waits_ = true;
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

void SchedulerLoop::collect() {
  woken_ = false;
  ProcessExit::hold_back();
  try {
    quiet_ = scheduler_.collect() ? 0 : std::min(quiet_ + 1, quiet_after);
  } catch (const std::exception& error) {  // Out of memory: the next look may succeed.
    log(LogLevel::error, "the scheduler could not collect the reported uses: {}", error.what());
  }
  if (collected_) collected_();
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
