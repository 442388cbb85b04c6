#include "migrate/gates/hold.hpp"

#include "base/check.hpp"
#include "migrate/stops/program_calls.hpp"
#include "migrate/stops/stop_stats.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vma {
namespace {

Error not_at_rest(int tries) {
  return Error(ErrorKind::busy, "vma::migrate",
               fmt::format("earlier work did not end within the limit; {}. Set a longer "
                           "MigrateOptions::deadline, synchronise before, or use migrate_async",
                           tries == 0 ? std::string("nothing was stopped")
                                      : fmt::format("tried {} times", tries)));
}

Error let_go_on() {
  return Error(ErrorKind::busy, "vma::migrate",
               "a driver call took so long that the program's calls were let go on");
}

}  // namespace

HoldPost::HoldPost(Driver& driver, BoundStream stream, Ledger& ledger)
    : driver_(driver),
      ledger_(ledger),
      stream_(stream),
      words_(driver, stream.context, ledger),
      word_(words_),
      event_(driver.create_event(stream.context)) {}

HoldPost::~HoldPost() {
  // The stream may not have read the word yet that opened the last hold.
  try {
    driver_.wait_stream(stream_, never);
  } catch (const Error& error) {
    if (!context_is_broken(error.native())) words_.keep_for_good();
  }
  ledger_.undo("an event of holds", [&] { driver_.destroy_event(event_); });
}

void HoldPost::close(std::uint64_t epoch) {
  const WordOperation wait = word_.wait_for(epoch);
  try {
    driver_.batch(stream_, {&wait, 1});
    driver_.record(event_, stream_);
  } catch (...) {
    open(epoch);
    throw;
  }
}

Hold::Hold(Driver& driver, ContextsInUse& contexts, HoldPost& post, Watchdog& watchdog,
           std::chrono::nanoseconds patience)
    : driver_(driver), contexts_(contexts), post_(post), watchdog_(watchdog), patience_(patience) {}

Hold::~Hold() {
  open();
}

/// While a hold waits for earlier work, contexts may come into use and be destroyed.
void Hold::take_events() {
  const std::vector<ContextHandle> in_use = contexts_.list();
  std::vector<Held> kept;
  kept.reserve(held_.size() + in_use.size());  // So that no event is lost below.
  for (const Held& held : held_) {
    if (std::ranges::find(in_use, held.context) != in_use.end()) {
      kept.push_back(held);
    } else {
      contexts_.give_back(held.context, held.at_rest);
    }
  }
  held_.swap(kept);
  for (const ContextHandle context : in_use) {
    if (std::ranges::find(held_, context, &Held::context) != held_.end()) continue;
    // Created before anything stops: creating an event in a stopped context may hang.
    try {
      held_.push_back({context, contexts_.take_event(context), false});
    } catch (const Error& error) {
      if (!context_is_broken(error.native())) throw;  // A broken context runs no more work.
    }
  }
}

void Hold::close(TimePoint deadline) {
  VMART_CHECK(state_ == State::open, "a closed hold is opened before it is closed again");
  constexpr int parts_of_first_try = 64;
  try {
    Clock& clock = driver_.clock();
    TimePoint slice = (deadline - clock.now()) / parts_of_first_try;
    for (bool first = true;; first = false) {
      if (before_ != nullptr && !first) await_work(deadline);
      await_copies(deadline);
      take_events();
      const TimePoint try_deadline = std::min(deadline, clock.now() + slice);
      if (++tries_ == 1) begun_ = clock.now();
      try {
        return try_close(try_deadline);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::busy || try_deadline == deadline) throw;
      }
      slice *= 4;
      await_rest(std::min(deadline, clock.now() + slice));  // Open: what was cut in two can end.
      if (before_ != nullptr) before_->recall(deadline);
    }
  } catch (...) {
    open();
    throw;
  }
}

void Hold::try_close(TimePoint deadline) {
  try {
    await_no_enqueues(deadline);
    std::unique_lock none_begins = look_for_captures(deadline);
    epoch_ = next_epoch();
    state_ = State::closing;
    ClosedHolds::of_process().begin();
    arm(deadline);
    stop_all(deadline);
    none_begins.unlock();
    if (!no_enqueues_.end_in_time()) throw let_go_on();
    // Copies do not wait for long work, which may wait for one of them.
    const TimePoint soon = driver_.clock().now() + NoCopyScopes::unstopped_limit;
    if (no_copy_scopes_.begun() && !await_rest(std::min(deadline, soon))) no_copy_scopes_.end();
    if (!await_rest(deadline)) throw not_at_rest(tries_);
    // Work before the stop has ended, and so have the calls that waited for it.
    hold_copies_back(driver_.clock().now() + NoCopyScopes::stopped_limit);
    if (!advance(State::closing, State::closed)) throw not_at_rest(tries_);
  } catch (...) {
    let_go();
    throw;
  }
  alive();
}

/// Before captures are looked for: a call that begins one enqueues. While one thread is inside a
/// call, which may take long, the others wait for moments only.
void Hold::await_no_enqueues(TimePoint deadline) {
  constexpr std::chrono::milliseconds limit(2), pause(2);
  Clock& clock = driver_.clock();
  while (const char* const why = no_enqueues_.begin(limit)) {
    const TimePoint now = clock.now();
    if (now >= deadline) throw Error(ErrorKind::busy, "vma::migrate", why);
    nap_until(clock, std::min<TimePoint>(deadline, now + pause));
  }
}

void Hold::await_work(TimePoint deadline) {
  constexpr std::chrono::milliseconds pause(2);
  Clock& clock = driver_.clock();
  take_events();
  while (!record_all(deadline)) {
    if (clock.now() >= deadline) throw let_go_on();
    nap_until(clock, std::min(deadline, later(clock.now(), pause)));
  }
  if (!await_rest(deadline)) throw not_at_rest(tries_);
}

/// Records end the captures that run in their contexts: only a program that enqueues nothing
/// meanwhile can say that it has none. False if the watchdog had to let it go on, since a record
/// blocked, perhaps behind a thread that waits for what another one would enqueue.
bool Hold::record_all(TimePoint deadline) {
  constexpr std::chrono::milliseconds limit(10);
  await_no_enqueues(deadline);
  Watchdog::Ticket ticket = Watchdog::Ticket::none;
  const auto let_go = [&]() noexcept {
    watchdog_.disarm(ticket);
    return no_enqueues_.end_in_time();
  };
  try {
    ticket = watchdog_.arm(later(driver_.clock().now(), limit), [this] { no_enqueues_.end(); });
    const auto none_begins = look_for_captures(deadline);
    for (Held& held : held_) {
      if (no_enqueues_.in_time()) record(held);
    }
  } catch (...) {
    let_go();
    throw;
  }
  return let_go();
}

/// A record of a context, and a hold, end the captures that have begun there.
std::unique_lock<std::shared_timed_mutex> Hold::look_for_captures(TimePoint deadline) const {
  constexpr std::chrono::microseconds pause(100);
  Clock& clock = driver_.clock();
  for (;;) {
    if (auto none_begins = CaptureLock::hold_back(); none_begins.owns_lock()) {
      if (before_try_) before_try_();
      return none_begins;
    }
    if (clock.now() >= deadline) {
      throw Error(ErrorKind::busy, "vma::migrate",
                  "a thread of the program begins a capture, or lets a stream wait for an event; "
                  "move again, or use migrate_async, which tries again");
    }
    nap_until(clock, std::min(deadline, clock.now() + pause));
  }
}

bool Hold::advance(State from, State to) noexcept {
  return state_.compare_exchange_strong(from, to);
}

/// Requires: the caller has advanced the state to `open`.
void Hold::open_post() noexcept {
  post_.open(epoch_);
  ClosedHolds::of_process().end();
}

void Hold::arm(TimePoint deadline) {
  ticket_ = watchdog_.arm(deadline, [this] {
    if (advance(State::closing, State::open) || advance(State::closed, State::open)) {
      open_post();
      no_copy_scopes_.end();
      no_enqueues_.end();  // The call that blocks may wait for what a thread would enqueue.
    }
  });
}

void Hold::alive() {
  watchdog_.rearm(ticket_, driver_.clock().now() + patience_);
}

void Hold::begin_dark() {
  post_.set_dark(true);
  // I2: the watchdog may have opened the hold, and process exit the word.
  if (!post_.is_open(epoch_) && advance(State::closed, State::dark)) return;
  post_.set_dark(false);
  throw Error(ErrorKind::busy, "vma::migrate",
              "a driver call took longer than the limit (another thread in cuCtxDestroy?), so the "
              "hold was released");
}

void Hold::end_dark() noexcept {
  VMART_CHECK(advance(State::dark, State::closed), "a slot goes dark only after the switch began");
  post_.set_dark(false);
}

void Hold::let_go() noexcept {
  watchdog_.disarm(ticket_);
  no_enqueues_.end_in_time();
  ticket_ = Watchdog::Ticket::none;
  if (state_.exchange(State::open) != State::open) open_post();
  post_.set_dark(false);
  no_copy_scopes_.end();
}

/// The recorded events must not wait for the post: if it stands in a context that is held, it
/// closes after them. Otherwise it closes first, so that only one call lies between the two for a
/// context.
void Hold::stop_all(TimePoint deadline) {
  const bool post_first = before_ == nullptr && !holds_its_post();
  if (post_first) post_.close(epoch_);
  for (Held& held : held_) {
    record(held);
    if (post_first) hold(held);
  }
  if (post_first) return;
  if (before_ != nullptr) enqueue_before(deadline);
  post_.close(epoch_);
  for (const Held& held : held_) hold(held);
}

bool Hold::holds_its_post() const {
  return std::ranges::any_of(held_,
                             [&](const Held& held) { return held.context == post_.context(); });
}

void Hold::record(Held& held) {
  held.recorded = false;
  try {
    driver_.record_context(held.context, held.at_rest);
    held.recorded = true;
  } catch (const Error& error) {
    if (!context_is_broken(error.native())) throw;  // A broken context runs no more work.
  }
}

void Hold::hold(const Held& held) {
  if (!held.recorded) return;
  try {
    driver_.hold_context(held.context, post_.event());
  } catch (const Error& error) {
    if (!context_is_broken(error.native())) throw;  // A broken context runs no more work.
  }
}

void Hold::enqueue_before(TimePoint deadline) {
  std::vector<EventHandle> at_rest;
  at_rest.reserve(held_.size());
  for (const Held& held : held_) {
    if (held.recorded) at_rest.push_back(held.at_rest);
  }
  before_->enqueue(at_rest, deadline);
}

/// With nothing stopped yet. Between its tries copies go on.
void Hold::await_copies(TimePoint deadline) {
  Clock& clock = driver_.clock();
  while (CopyScopes::process().were_in_the_way() &&
         !no_copy_scopes_.begin(clock,
                                std::min(deadline, clock.now() + NoCopyScopes::unstopped_limit))) {
    const TimePoint next = std::min(deadline, clock.now() + NoCopyScopes::unstopped_limit);
    if (next == deadline) return hold_copies_back(deadline);
    nap_until(clock, next);
  }
}

void Hold::hold_copies_back(TimePoint deadline) {
  if (no_copy_scopes_.begin(driver_.clock(), deadline)) return;
  throw Error(ErrorKind::busy, "vma::migrate",
              fmt::format("another thread was inside a copy that may name the memory, tried {} "
                          "time(s). {}",
                          tries_, advice(StopRefusal::copies_busy, true)));
}

bool Hold::await_rest(TimePoint deadline) {
  for (const Held& held : held_) {
    try {
      if (!driver_.wait_event(held.at_rest, deadline)) return false;
    } catch (const Error& error) {
      if (!context_is_broken(error.native())) throw;  // A broken context runs no more work.
    }
  }
  return true;
}

void Hold::open() noexcept {
  let_go();
  for (const Held& held : held_) {
    if (!is_none(held.at_rest)) contexts_.give_back(held.context, held.at_rest);
  }
  held_.clear();
}

}  // namespace vma
