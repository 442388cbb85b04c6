#include "migrate/gates/gate.hpp"

#include "base/check.hpp"
#include "base/units.hpp"
#include "driver/native_codes.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// An older observation of a backlog is repeated before anything is stopped.
constexpr nanoseconds look_age_max = milliseconds(20);
/// If no stream is stopped by then, the turn for slow calls is released.
constexpr nanoseconds turn_limit = milliseconds(2);

bool means_capture(int native) {
  return native == native_stream_capture_unsupported ||
         native == native_stream_capture_invalidated || native == native_stream_capture_implicit;
}

StopRefusal given_back() {
  return {StopRefusal::streams_changed, "the program detaches a stream or cancels the move"};
}

StopRefusal nothing_to_stop() {
  return {StopRefusal::stream_lost, "a gate has at least one stream to stop"};
}

}  // namespace

void SlowCallTurn::take() {
  if (!held_) turn_.lock();
  held_ = true;
}

bool SlowCallTurn::try_take() {
  if (!held_) held_ = turn_.try_lock();
  return held_;
}

void SlowCallTurn::let_go() noexcept {
  if (std::exchange(held_, false)) turn_.unlock();
}

Gate::Gate(Driver& driver, GatePost& post, std::function<void()> opened_late)
    : driver_(driver),
      clock_(driver.clock()),
      post_(post),
      latch_(clock_, post, std::move(opened_late)) {}

Gate::~Gate() {
  open();
}

/// Some steps of the program: its backlog has several of them.
nanoseconds Gate::patience_unstopped() const noexcept {
  constexpr nanoseconds least = milliseconds(100);
  return std::min<nanoseconds>(limits_.overdue_limit, least + stops_->deepest());
}

void Gate::be_back_by(TimePoint deadline) noexcept {
  be_back_by(deadline, deadline);
}

/// By `unstopped` and some patience, if no stream has arrived until then.
void Gate::be_back_by(TimePoint deadline, TimePoint unstopped) noexcept {
  latch_.be_back_by(deadline, later(unstopped, patience_unstopped()));
}

void Gate::open() noexcept {
  latch_.open();
  note_stopped(false);
}

/// Decorators may rely on this: while work is noted as stopped, the turn for slow calls is held, so
/// no slow call of another thread begins.
void Gate::note_stopped(bool stopped) noexcept {
  if (noted_ != stopped) driver_.note_stopped(stopped ? 1 : -1);
  noted_ = stopped;
}

bool Gate::has_turn() const noexcept {
  return limits_.turn == nullptr || limits_.turn->held();
}

bool Gate::try_turn() {
  if (limits_.turn != nullptr && !limits_.turn->try_take()) return false;
  note_stopped(true);
  return true;
}

void Gate::let_turn_go() noexcept {
  if (limits_.turn == nullptr) return;
  note_stopped(false);
  limits_.turn->let_go();
}

bool Gate::unwanted() const {
  return limits_.given_up && limits_.given_up();
}

void Gate::begin_dark() {
  if (commit()) return;
  throw Error(ErrorKind::busy, "vma::migrate_async",
              "a driver call took longer than the limit while streams were stopped, so the gate "
              "was opened");
}

/// Leaves nothing stopped if `body` refuses or throws.
template <typename Body>
std::optional<StopRefusal> Gate::guarded(std::optional<EnqueuedStops>& stops, Body&& body) {
  std::optional<StopRefusal> refusal;
  std::exception_ptr failure;
  try {
    refusal = body();
    if (!refusal) return refusal;
  } catch (const Error& error) {
    if (means_lost_stream(error.native())) {
      refusal = StopRefusal{StopRefusal::Why::stream_lost, error.what()};
    } else if (means_capture(error.native())) {
      refusal = StopRefusal{StopRefusal::Why::capture, error.what()};
    } else {
      failure = std::current_exception();
    }
  } catch (...) {
    failure = std::current_exception();
  }
  const bool uses_word = latch_.has_word();
  open();
  if (stops && stops->may_be_captured()) post_.retire_words(stops->plan(), uses_word);
  if (failure) std::rethrow_exception(failure);
  return refusal;
}

// --- Backlogs

std::optional<StopRefusal> Gate::look(const GatePlan& plan, const GateLimits& limits) {
  VMART_CHECK(state() == State::open, "a gate looks before it is closed");
  open();  // Cleans up if the watchdog has opened it.
  limits_ = limits;
  if (plan.stops.empty()) return nothing_to_stop();
  std::optional<EnqueuedStops> probes;
  return guarded(probes, [&] {
    post_.prepare(plan, GatePost::Use::probes);
    return look_at_backlogs(plan, probes.emplace(driver_, post_, plan, nullptr));
  });
}

/// Determines all backlogs, with a probe that stops nothing if they are not known well enough.
std::optional<StopRefusal> Gate::look_at_backlogs(const GatePlan& plan, EnqueuedStops& probes) {
  if (auto refusal = probes.find_capture()) return refusal;
  const TimePoint now = clock_.now();
  const auto known = [&](const GateStop& stop) {
    return post_.state_of(stop).backlog.known_since(now - look_age_max);
  };
  if (std::ranges::all_of(plan.stops, known)) return std::nullopt;
  probes.begin(std::vector<Backlog>(plan.stops.size()));
  if (auto refusal = probes.enqueue_next()) return refusal;
  let_turn_go();  // The backlogs may be deep.
  const TimePoint asked = clock_.now();
  Arrivals& arrivals = probes.arrivals();
  poll_until(clock_, later(asked, limits_.look_limit), [&] {
    arrivals.look();
    return arrivals.all() || unwanted();
  });
  probes.learn();
  if (arrivals.all()) return std::nullopt;
  if (unwanted()) return given_back();
  return probes.not_arrived(
      fmt::format("did not finish earlier work within {:.0f} ms (nothing was stopped)",
                  in_ms(clock_.now() - asked)));
}

// --- Sending

std::optional<StopRefusal> Gate::try_close(const GatePlan& plan, const GateLimits& limits) {
  if (auto refusal = send(plan, limits)) return refusal;
  return close();
}

std::optional<StopRefusal> Gate::send(const GatePlan& plan, const GateLimits& limits) {
  VMART_CHECK(state() == State::open, "a gate is closed once at a time");
  open();  // Cleans up if the watchdog has opened it.
  limits_ = limits;
  stops_.reset();
  refused_.reset();
  failed_ = nullptr;
  arrived_ = {};
  latch_.renew();
  if (plan.stops.empty()) return nothing_to_stop();
  const auto prepared = [&]() -> std::optional<StopRefusal> {
    post_.prepare(plan);
    return std::nullopt;
  };
  if (auto refusal = guarded(stops_, prepared)) return refusal;
  if (plan.stops.size() > 1) {  // With one stream there is no skew.
    if (auto refusal = look(plan, limits)) return refusal;
  }
  return guarded(stops_, [&] { return begin(plan); });
}

/// Requires: the post is prepared.
std::optional<StopRefusal> Gate::begin(const GatePlan& plan) {
  stops_.emplace(driver_, post_, plan, &latch_.take_word());
  if (auto refusal = stops_->find_capture()) return refusal;
  std::vector<Backlog> backlogs;
  for (const GateStop& stop : plan.stops) backlogs.push_back(post_.state_of(stop).backlog);
  const bool may_follow = !limits_.tells_ahead;
  const auto [skew, varying] = predict_skew(backlogs, may_follow);
  stops_->begin(std::move(backlogs), may_follow);
  if (skew > limits_.skew_limit) {
    stops_->forget_backlogs();
    return StopRefusal{
        StopRefusal::predicted_skew,
        fmt::format(
            "the streams are expected to arrive {:.1f} ms apart, because the backlog of {} varies "
            "by that much; the limit of this try is {:.1f} ms, so nothing was stopped",
            in_ms(skew), stops_->name(varying), in_ms(limits_.skew_limit))};
  }
  arrival_limit_ = std::min(limits_.arrival_limit, std::max(limits_.arrival_limit_min, 2 * skew));
  if (CopyScopes::process().were_in_the_way()) {
    let_turn_go();  // Nothing is stopped yet, and the copies under way may take long.
    if (auto refusal = hold_copies_back(later(clock_.now(), NoCopyScopes::unstopped_limit)))
      return refusal;
  }
  begun_ = clock_.now();
  try_turn();
  const TimePoint deadline = later(arrivals_due(), limits_.arrival_limit);
  latch_.begin(*stops_, deadline, later(deadline, patience_unstopped()));
  return enqueue_next();
}

/// Until all are enqueued, a call that blocks must not keep streams stopped that were told first.
std::optional<StopRefusal> Gate::enqueue_next() {
  // What is told now may stop at once, beside one that has arrived already.
  const TimePoint now = clock_.now();
  const TimePoint due = stops_->arrivals().any() ? now : std::max(arrivals_due(), now);
  be_back_by(later(now, limits_.arrival_limit), later(due, limits_.arrival_limit));
  return stops_->enqueue_next();
}

void Gate::keep_up() noexcept {
  if (!stops_ || state() == State::open || refused_ || failed_) return;
  try {
    while (!refused_ && clock_.now() >= stops_->next_due()) refused_ = enqueue_next();
  } catch (...) {
    failed_ = std::current_exception();
  }
}

// --- Waiting

/// When the first stream should have arrived at the latest.
TimePoint Gate::wait_end() const {
  const TimePoint asked = stops_->awaits_arrival() ? stops_->enqueued_at() : clock_.now();
  return std::min(later(asked, limits_.wait_limit),
                  later(later(asked, stops_->deepest()), limits_.overdue_limit));
}

bool Gate::await_first(TimePoint until) {
  Arrivals& arrivals = stops_->arrivals();
  NoCopyScopes& no_copies = latch_.no_copy_scopes();
  const TimePoint copies_due = later(begun_, NoCopyScopes::unstopped_limit);
  const auto come = [&] {
    arrivals.look();
    return arrivals.any() || arrivals.all() || unwanted();
  };
  while (!refused_ && !failed_ && state() != State::open) {
    const bool waits = stops_->awaits_arrival();
    const TimePoint end = wait_end();
    be_back_by(later(waits ? end : std::max(arrivals_due(), clock_.now()), limits_.arrival_limit));
    TimePoint look = std::min({until, end, stops_->next_due()});
    if (no_copies.begun()) look = std::min(look, copies_due);
    if (has_turn()) {
      // Other threads that allocate are delayed only briefly.
      const TimePoint turn_end =
          limits_.turn == nullptr ? look : std::min(look, later(begun_, turn_limit));
      if (poll_until(clock_, turn_end, come)) return true;
      if (turn_end < look) {
        let_turn_go();
        continue;
      }
    } else if (poll_until(clock_, look, come)) {
      if (arrivals.any()) try_turn();
      return true;
    }
    // What nothing has arrived for by then may wait for a copy of the program itself.
    if (no_copies.begun() && clock_.now() >= copies_due) no_copies.end();
    keep_up();
    if (clock_.now() >= end) return true;
    if (clock_.now() >= until) return false;
  }
  return true;
}

/// False if another thread's slow driver call is still running at `end`. The watchdog opens the
/// gate if that call waits for stopped work.
bool Gate::take_turn(TimePoint end) {
  constexpr nanoseconds look_period = microseconds(20);
  while (!try_turn()) {
    const TimePoint now = clock_.now();
    if (now >= end || unwanted()) return false;
    poll_until(clock_, std::min(end, later(now, look_period)), [this] {
      stops_->arrivals().look();
      return false;
    });
  }
  return true;
}

std::optional<StopRefusal> Gate::close() {
  return guarded(stops_, [this]() -> std::optional<StopRefusal> {
    if (auto refusal = await_all()) return refusal;
    // What was enqueued before the stop has ended, and so have the calls that waited for it.
    if (auto refusal = hold_copies_back(later(clock_.now(), NoCopyScopes::stopped_limit)))
      return refusal;
    arrived_.last_arrival = stops_->arrivals().last();
    be_back_by(later(clock_.now(), limits_.settle_limit));
    if (latch_.close()) return std::nullopt;
    return opened_early();
  });
}

std::optional<StopRefusal> Gate::hold_copies_back(TimePoint deadline) {
  if (latch_.no_copy_scopes().begin(clock_, deadline)) return std::nullopt;
  return StopRefusal{StopRefusal::copies_busy,
                     "another thread was inside a copy that may name the memory"};
}

StopRefusal Gate::opened_early() const {
  return {StopRefusal::opened_by_watchdog,
          fmt::format("a driver call took longer than {:.1f} ms while streams were stopped, so the "
                      "gate was opened",
                      in_ms(arrival_limit_))};
}

/// The thread checks the limits itself; the watchdog's are a little longer.
std::optional<StopRefusal> Gate::await_all() {
  Arrivals& arrivals = stops_->arrivals();
  while (true) {
    const bool all = stops_->all_enqueued();
    const bool come = await_first(stops_->awaits_arrival() ? wait_end() : stops_->next_due());
    if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
    if (refused_) return refused_;
    note_first();
    if (state() == State::open) {
      note_opened_early();
      return opened_early();
    }
    if (all || stops_->all_enqueued()) break;
    if (unwanted()) return given_back();
    if (!come) continue;
    if (!arrivals.any() && clock_.now() >= wait_end()) {
      stops_->excuse_broken();
      if (arrivals.waits()) break;  // In vain, so the others need not stop.
    }
    if (auto refusal = enqueue_next()) return refusal;  // One has arrived: the others follow.
  }
  const bool any = arrivals.any();
  const TimePoint end = any ? later(arrivals.first(), arrival_limit_) : clock_.now();
  be_back_by(later(end, limits_.arrival_limit / 8));
  if (any) take_turn(end);
  poll_until(clock_, end, [&] {
    arrivals.look();
    return arrivals.all() || unwanted();
  });
  note_first();
  if (!arrivals.all() && unwanted()) return given_back();
  if (!arrivals.all() && stops_->all_enqueued()) stops_->excuse_broken();
  stops_->learn();
  if (!arrivals.all()) return missing();
  if (take_turn(clock_.now())) return std::nullopt;
  return StopRefusal{StopRefusal::memory_busy,
                     "an allocation or a release was in progress when the streams stopped"};
}

/// Recorded even if the stop fails.
void Gate::note_first() {
  stops_->arrivals().look();
  if (stops_->arrivals().any()) arrived_.first_arrival = stops_->arrivals().first();
}

/// This thread was late: what arrived did so before the watchdog opened the gate.
void Gate::note_opened_early() {
  // The watchdog notes the time after it has opened.
  const TimePoint noted = latch_.opened();
  const TimePoint opened = noted != TimePoint(0) ? noted : clock_.now();
  if (latch_.any_when_opened() && arrived_.first_arrival == TimePoint(0))
    arrived_.first_arrival = opened;
  stops_->arrivals().were_seen_by(opened);
  stops_->learn();
}

StopRefusal Gate::missing() {
  if (!stops_->arrivals().any()) {
    return stops_->not_arrived(
        fmt::format("did not finish earlier work within {:.0f} ms (nothing was stopped)",
                    in_ms(clock_.now() - stops_->enqueued_at())));
  }
  return stops_->not_arrived(fmt::format(
      "did not arrive at the gate within {:.1f} ms after the first stream", in_ms(arrival_limit_)));
}

}  // namespace vma
