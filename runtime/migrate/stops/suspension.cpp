#include "migrate/stops/suspension.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/process_exit.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vma {
namespace {

constexpr const char* suspended_call = "vma::migrate";
/// Between two tries to let the work go on: at first, and later.
constexpr std::chrono::milliseconds resume_period(1), resume_period_max(100);

/// The suspension that the process has: the driver allows one at a time. A second machine may have
/// another, which then only its watchdog ends.
struct Current {
  Mutex mutex;
  Suspension* suspension VMART_GUARDED_BY(mutex) = nullptr;
};

Current& current() noexcept {
  static Immortal<Current> only;
  return *only;
}

}  // namespace

Suspension::Suspension(Driver& driver, Watchdog& watchdog, std::vector<DeviceId> gpus,
                       std::chrono::nanoseconds patience, Of of)
    : driver_(driver), watchdog_(watchdog), gpus_(std::move(gpus)), patience_(patience), of_(of) {
  static std::atomic<int> prepared{0};
  ProcessExit::act_once(prepared, ProcessExit::Stage::open_stops, &resume_at_exit);
}

Suspension::~Suspension() {
  open();
}

void Suspension::close(TimePoint deadline) {
  VMART_CHECK(state_ == State::on, "a suspension ends before the next one begins");
  begun_ = TimePoint(0);
  refused_ = false;
  hold_copies_back(deadline);
  begun_ = driver_.clock().now();
  driver_.note_stopped(1);
  try {
    suspended_ = of_ == Of::program ? driver_.suspend(gpus_) : driver_.suspend_everything(gpus_);
  } catch (...) {
    state_ = State::off;  // Perhaps a GPU is.
    suspended_ = {};
    open();
    begun_ = TimePoint(0);
    refused_ = true;
    throw;
  }
  state_ = State::off;
  {
    Current& now = current();
    const MutexLock lock(now.mutex);
    now.suspension = this;
  }
  if (ProcessExit::begun()) {  // It lets go what was suspended before it began.
    open();
    throw Error(ErrorKind::busy, suspended_call, "the process exits");
  }
  try {
    ticket_ = watchdog_.arm_repeatedly(driver_.clock().now() + patience_, [this] {
      let_go();
      const TimePoint now = driver_.clock().now();
      if (state_ == State::on) return never;
      return now + (state_ == State::resuming ? resume_period : patience_);
    });
  } catch (...) {
    open();
    throw;
  }
}

/// A copy may wait for work, so it is waited for before anything is suspended, and others go on
/// between the tries.
void Suspension::hold_copies_back(TimePoint deadline) {
  Clock& clock = driver_.clock();
  for (int tries = 1;; ++tries) {
    const TimePoint soon = clock.now() + NoCopyScopes::unstopped_limit;
    if (no_copy_scopes_.begin(clock, std::min(deadline, soon))) return;
    if (clock.now() >= deadline) {
      throw Error(ErrorKind::busy, suspended_call,
                  fmt::format("another thread was inside a CopyScope, or a copy of the program, at "
                              "each of {} tries. End it, or set a longer MigrateOptions::deadline",
                              tries));
    }
    nap_until(clock, std::min(deadline, clock.now() + NoCopyScopes::unstopped_limit));
  }
}

void Suspension::begin_dark() {
  State off = State::off;
  if (!ProcessExit::begun() && state_.compare_exchange_strong(off, State::dark)) return;
  throw Error(ErrorKind::busy, suspended_call,
              "a driver call took longer than the limit (another thread in cuCtxDestroy?), so the "
              "program's work was let go on");
}

void Suspension::end_dark() noexcept {
  State dark = State::dark;
  VMART_CHECK(state_.compare_exchange_strong(dark, State::off),
              "a slot goes dark only after the switch began");
}

void Suspension::alive() {
  watchdog_.rearm(ticket_, driver_.clock().now() + patience_);
}

/// From any thread. Unless a slot is dark, the work goes on then; or the driver refuses that, and
/// the state stays `resuming`.
void Suspension::let_go() noexcept {
  State off = State::off;
  if (!state_.compare_exchange_strong(off, State::resuming) && off != State::resuming) return;
  try {
    driver_.resume(suspended_);  // Of two threads the second one finds nothing to do.
  } catch (const std::exception& error) {
    return log(LogLevel::debug, "the program's work does not go on yet: {}", error.what());
  }
  // Another thread than the owner may still be here when the owner opens, which waits for it.
  if (state_.exchange(State::on) == State::resuming) driver_.note_stopped(-1);
  no_copy_scopes_.end();
}

void Suspension::open() noexcept {
  constexpr std::chrono::seconds limit(10);
  watchdog_.disarm(std::exchange(ticket_, Watchdog::Ticket::none));
  Clock& clock = driver_.clock();
  const TimePoint deadline = clock.now() + limit;
  let_go();
  for (auto period = resume_period; state_ != State::on && clock.now() < deadline;
       period = std::min(2 * period, resume_period_max)) {
    nap_until(clock, std::min<TimePoint>(deadline, clock.now() + period));
    let_go();
  }
  {
    Current& now = current();
    const MutexLock lock(now.mutex);
    if (now.suspension == this) now.suspension = nullptr;
  }
  if (state_ != State::on) leave_to_watchdog();
}

/// The driver still refuses. Nothing is dark, so copies of the program go on.
void Suspension::leave_to_watchdog() noexcept {
  constexpr std::chrono::seconds period(1);
  log(LogLevel::error,
      "the program's work was taken off its GPUs for a move, and for 10 s the driver has refused "
      "to put it back, so it stands. vmart tries that again each second; if the program does not "
      "go on, end it, and start it with VMART_STOP=gate");
  const auto resume = [&driver = driver_, suspended = suspended_, period] {
    try {
      driver.resume(suspended);
      driver.note_stopped(-1);
      log(LogLevel::warn, "the program's work, which had been stopped, goes on");
      return never;
    } catch (const std::exception& error) {
      log(LogLevel::debug, "the program's work does not go on yet: {}", error.what());
      return driver.clock().now() + period;
    }
  };
  try {
    watchdog_.arm_repeatedly(driver_.clock().now() + period, resume);
  } catch (const std::bad_alloc&) {  // It stands until the process ends.
  }
  state_ = State::on;
  no_copy_scopes_.end();
}

/// While a slot is dark, the exiting thread must not go on to calls that may wait for the work, nor
/// may copies of other threads.
void Suspension::resume_at_exit() noexcept {
  constexpr std::chrono::seconds limit(1);
  Current& now = current();
  const MutexLock lock(now.mutex);
  Suspension* const suspension = now.suspension;  // Exists for as long as we have the lock.
  if (suspension == nullptr) return;
  SteadyClock wall;
  const TimePoint deadline = wall.now() + limit;
  if (!poll_until(wall, deadline, [&] { return suspension->state_ != State::dark; })) {
    return CopyScopes::process().stay_held_back();
  }
  suspension->let_go();
  while (suspension->state_ != State::on && wall.now() < deadline) {
    nap_until(wall, std::min(deadline, wall.now() + resume_period));
    suspension->let_go();
  }
}

}  // namespace vma
