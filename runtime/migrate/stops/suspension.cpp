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
  static const ProcessExit::Action action(ProcessExit::Stage::open_stops, &resume_at_exit);
  static_cast<void>(action);
}

Suspension::~Suspension() {
  open();
}

void Suspension::close(TimePoint deadline) {
  VMART_CHECK(state_ == State::on, "a suspension ends before the next one begins");
  hold_copies_back(deadline);
  begun_ = driver_.clock().now();
  try {
    suspended_ = of_ == Of::program ? driver_.suspend(gpus_) : driver_.suspend_everything(gpus_);
  } catch (...) {
    no_copies_.end();
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
    ticket_ = watchdog_.arm(driver_.clock().now() + patience_, [this] { let_go(); });
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
    const TimePoint soon = clock.now() + NoCopies::unstopped_limit;
    if (no_copies_.begin(clock, std::min(deadline, soon))) return;
    if (clock.now() >= deadline) {
      throw Error(ErrorKind::busy, suspended_call,
                  fmt::format("another thread was inside a CopyScope, or a copy of the program, at "
                              "each of {} tries. End it, or set a longer MigrateOptions::deadline",
                              tries));
    }
    poll_until(clock, std::min(deadline, clock.now() + NoCopies::unstopped_limit),
               [] { return false; });
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

/// From any thread. False: a slot is dark, or the work goes on already.
bool Suspension::let_go() noexcept {
  State off = State::off;
  if (!state_.compare_exchange_strong(off, State::on)) return false;
  resume();
  no_copies_.end();
  return true;
}

void Suspension::open() noexcept {
  watchdog_.disarm(std::exchange(ticket_, Watchdog::Ticket::none));
  let_go();
  Current& now = current();
  const MutexLock lock(now.mutex);
  if (now.suspension == this) now.suspension = nullptr;
}

void Suspension::resume() noexcept {
  constexpr std::chrono::seconds limit(10);
  const SteadyClock wall;
  const TimePoint deadline = wall.now() + limit;
  for (Poll poll;; poll.pause()) {
    try {
      return driver_.resume(suspended_);
    } catch (const std::exception& error) {
      if (wall.now() < deadline) continue;
      log(LogLevel::error,
          "the program's work does not go on, so it stands until the process ends; end it: {}",
          error.what());
      return;
    }
  }
}

/// While a slot is dark, the exiting thread must not go on to calls that may wait for the work.
void Suspension::resume_at_exit() noexcept {
  constexpr std::chrono::seconds limit(1);
  Current& now = current();
  const MutexLock lock(now.mutex);
  Suspension* const suspension = now.suspension;  // Exists for as long as we have the lock.
  if (suspension == nullptr) return;
  SteadyClock wall;
  poll_until(wall, wall.now() + limit, [&] { return suspension->state_ != State::dark; });
  suspension->let_go();
}

}  // namespace vma
