#include "service/scheduler_loop.hpp"

#include "service/scheduler.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <exception>
#include <utility>

namespace vma {
namespace {

namespace asio = boost::asio;

/// Drains that found nothing, after which the loop looks a tenth as often.
constexpr int quiet_after = 100;
constexpr int quiet_factor = 10;

}  // namespace

SchedulerLoop::SchedulerLoop(Driver& driver, Scheduler& scheduler, std::chrono::nanoseconds drain,
                             std::chrono::nanoseconds tick)
    : driver_(driver), scheduler_(scheduler), drain_(drain), tick_(tick) {
  asio::co_spawn(context_, drain_again_and_again(), asio::detached);
  asio::co_spawn(context_, tick_again_and_again(), asio::detached);
}

void SchedulerLoop::start(std::function<void()> drained) {
  drained_ = std::move(drained);
  scheduler_.wake_with([this] { wake(); });
  task_ = driver_.executor().spawn("vmart sched", [this] { context_.run(); });
}

SchedulerLoop::~SchedulerLoop() {
  stop();
}

void SchedulerLoop::stop() noexcept {
  if (!task_) return;
  scheduler_.wake_with({});
  context_.stop();
  task_->join();
  task_.reset();
}

void SchedulerLoop::wake() noexcept {
  if (woken_.exchange(true)) return;
  try {
    asio::post(context_, [this] { drain_timer_.cancel(); });
  } catch (const std::exception&) {  // No memory: the timer sees to it.
    woken_ = false;
  }
}

asio::awaitable<void> SchedulerLoop::drain_again_and_again() {
  int quiet = 0;
  while (true) {
    const auto pause = quiet < quiet_after ? drain_ : drain_ * quiet_factor;
    drain_timer_.expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(pause));
    boost::system::error_code cancelled;
    // What comes from here on wakes again.
    if (!woken_.exchange(false)) {
      co_await drain_timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
      woken_ = false;
    }
    ProcessExit::hold_back();
    try {
      quiet = scheduler_.drain() ? 0 : quiet + 1;
    } catch (const std::exception& error) {  // Want of memory: the next one may go well.
      log(LogLevel::error, "the scheduler could not look at what was reported: {}", error.what());
    }
    if (quiet > quiet_after) quiet = quiet_after;
    if (drained_) drained_();
  }
}

asio::awaitable<void> SchedulerLoop::tick_again_and_again() {
  auto next = asio::steady_timer::clock_type::now();
  while (true) {
    next += std::chrono::duration_cast<asio::steady_timer::duration>(tick_);
    // One that comes late is not made up for.
    next = std::max(next, asio::steady_timer::clock_type::now());
    tick_timer_.expires_at(next);
    const TimePoint begin = driver_.clock().now();
    boost::system::error_code cancelled;
    co_await tick_timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    driver_.clock().waited(begin + tick_);  // A virtual clock follows.
    ProcessExit::hold_back();
    try {
      scheduler_.tick(asio::steady_timer::clock_type::now() - next > tick_);
    } catch (const std::exception& error) {
      log(LogLevel::error, "a tick of the scheduler failed: {}", error.what());
    }
  }
}

}  // namespace vma
