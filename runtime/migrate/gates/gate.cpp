#include "migrate/gates/gate.hpp"

#include "base/check.hpp"
#include "base/units.hpp"
#include "driver/native_codes.hpp"
#include "memory/contexts_in_use.hpp"
#include "migrate/gates/arrivals.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// An older observation of a backlog is repeated before anything is stopped.
constexpr nanoseconds look_age_max = milliseconds(20);

bool means_capture(int native) {
  return native == native_stream_capture_unsupported ||
         native == native_stream_capture_invalidated || native == native_stream_capture_implicit;
}

/// The context runs no more work, but still exists.
bool breaks_context(const Error& error) {
  return context_is_broken(error.native()) && !means_lost_stream(error.native());
}

/// As the program knows it, with its GPU.
std::string name_of(const GateStop& stop, const GatePost::Stand& stand) {
  const auto handle = static_cast<std::uint64_t>(stop.stream.handle);
  const std::string where = stand.gpu ? fmt::format(" of gpu({})", *stand.gpu) : "";
  return handle == 0 ? fmt::format("the legacy stream{}", where)
                     : fmt::format("stream {:#x}{}", handle, where);
}

Gate::Refusal given_back() {
  return {StopRefusal::streams_changed, "the program detaches a stream or cancels the move"};
}

}  // namespace

/// One call of `try_close`.
struct Gate::Attempt {
  const GatePlan& plan;
  const GateLimits& limits;
  nanoseconds arrival_limit{0};  // The allowed limit, adjusted to the backlogs.
  std::vector<Backlog> backlogs;
  std::vector<StopStart> unseen;  // Enqueued, and not checked for captures since.
  bool captured = false;          // One of them did.
  TimePoint turn_end{0};  // If no stream is stopped by then, the turn for slow calls is released.

  bool has_turn() const { return limits.turn == nullptr || limits.turn->held(); }
  bool unwanted() const { return limits.given_up && limits.given_up(); }
};

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
    : driver_(driver), clock_(driver.clock()), post_(post), opened_late_(std::move(opened_late)) {}

Gate::~Gate() {
  open();
}

bool Gate::advance(State from, State to) noexcept {
  return state_.compare_exchange_strong(from, to);
}

void Gate::begin(TimePoint deadline) {
  opened_ = TimePoint(0);
  state_ = State::closing;
  ticket_ = post_.watchdog().arm(deadline, [this] {
    if (!advance(State::closing, State::open) && !advance(State::closed, State::open)) return;
    post_.open_word().open(epoch_);
    opened_ = clock_.now();
    opened_late_();
  });
}

void Gate::be_back_by(TimePoint deadline) noexcept {
  post_.watchdog().rearm(ticket_, deadline);
}

void Gate::open() noexcept {
  // The store comes first: until then everything is stopped.
  if (state_.exchange(State::open) != State::open) {
    post_.open_word().open(epoch_);
    opened_ = clock_.now();
    post_.open_word().set_dark(false);
  }
  post_.watchdog().disarm(ticket_);
  ticket_ = Watchdog::Ticket::none;
  note_stopped(false);
}

/// Decorators may rely on this: while work is noted as stopped, the turn for slow calls is held, so
/// no slow call of another thread begins.
void Gate::note_stopped(bool stopped) noexcept {
  if (noted_ != stopped) driver_.note_stopped(stopped ? 1 : -1);
  noted_ = stopped;
}

bool Gate::try_turn(const Attempt& attempt) {
  if (attempt.limits.turn != nullptr && !attempt.limits.turn->try_take()) return false;
  note_stopped(true);
  return true;
}

void Gate::let_turn_go(const Attempt& attempt) noexcept {
  if (attempt.limits.turn == nullptr) return;
  note_stopped(false);
  attempt.limits.turn->let_go();
}

bool Gate::commit() noexcept {
  VMART_CHECK(ticket_ != Watchdog::Ticket::none, "only a closed gate is committed");
  StopWord& word = post_.open_word();
  word.set_dark(true);
  // I2: the watchdog may have opened the gate, and process exit the word.
  if (!word.is_open(epoch_) && advance(State::closed, State::committed)) return true;
  word.set_dark(false);
  return false;
}

std::optional<Gate::Refusal> Gate::look(const GatePlan& plan, const GateLimits& limits) {
  Attempt attempt{plan, limits, nanoseconds(0), {}, {}, false, TimePoint(0)};
  return guarded(attempt, &Gate::look_at_backlogs);
}

std::optional<Gate::Refusal> Gate::try_close(const GatePlan& plan, const GateLimits& limits) {
  Attempt attempt{plan, limits, nanoseconds(0), {}, {}, false, TimePoint(0)};
  return guarded(attempt, &Gate::close);
}

/// Leaves nothing stopped unless the gate is closed.
std::optional<Gate::Refusal> Gate::guarded(Attempt& attempt,
                                           std::optional<Refusal> (Gate::*body)(Attempt& attempt)) {
  VMART_CHECK(state_ == State::open, "a gate is closed once at a time");
  open();  // Cleans up if the watchdog has opened it.
  const GatePlan& plan = attempt.plan;
  if (plan.stops.empty())
    return Refusal{StopRefusal::stream_lost, "a gate has at least one stream to stop"};
  std::optional<Refusal> refusal;
  std::exception_ptr failure;
  try {
    post_.prepare(plan);
    Arrivals none(clock_, 0, 0);
    refusal = find_capture(attempt, schedule_stops(std::vector<Backlog>(plan.stops.size())), none);
    if (!refusal) refusal = (this->*body)(attempt);
    if (!refusal) return refusal;
  } catch (const Error& error) {
    if (means_lost_stream(error.native())) {
      refusal = Refusal{StopRefusal::stream_lost, error.what()};
    } else if (means_capture(error.native())) {
      refusal = Refusal{StopRefusal::capture, error.what()};
    } else {
      failure = std::current_exception();
    }
  } catch (...) {
    failure = std::current_exception();
  }
  open();
  if (may_be_captured(attempt)) post_.retire_words(plan);
  if (failure) std::rethrow_exception(failure);
  return refusal;
}

std::optional<Gate::Refusal> Gate::close(Attempt& attempt) {
  // With one stream there is no skew.
  if (attempt.plan.stops.size() > 1) {
    if (auto refusal = look_at_backlogs(attempt)) return refusal;
  }
  for (const GateStop& stop : attempt.plan.stops) {
    attempt.backlogs.push_back(post_.stand(stop).backlog);
  }
  const GateLimits& limits = attempt.limits;
  const nanoseconds skew = predict_skew(attempt.backlogs);
  if (skew > limits.skew_limit) {
    for (const GateStop& stop : attempt.plan.stops) post_.stand(stop).backlog.forget();
    return Refusal{
        StopRefusal::predicted_skew,
        fmt::format(
            "the streams are expected to arrive {:.1f} ms apart, because the backlog of {} varies "
            "by that much; the limit of this try is {:.1f} ms, so nothing was stopped",
            in_ms(skew), most_varying(attempt), in_ms(limits.skew_limit))};
  }
  attempt.arrival_limit =
      std::min(attempt.limits.arrival_limit, std::max(attempt.limits.arrival_limit_min, 2 * skew));
  epoch_ = next_epoch();
  Arrivals arrivals(clock_, epoch_, attempt.plan.stops.size());
  if (auto refusal = stop_all(attempt, arrivals)) return refusal;
  auto late = await_all(attempt, arrivals);
  if (arrivals.any()) first_arrival_ = arrivals.first();  // Recorded even if the stop fails.
  if (late) return late;
  last_arrival_ = arrivals.last();
  be_back_by(later(clock_.now(), attempt.limits.settle_limit));
  const bool stands = !post_.open_word().is_open(epoch_);
  if (stands && advance(State::closing, State::closed)) return std::nullopt;
  return Refusal{StopRefusal::opened_by_watchdog,
                 fmt::format("a driver call took longer than {:.1f} ms while streams were stopped, "
                             "so the gate was opened",
                             in_ms(attempt.arrival_limit))};
}

/// Determines all backlogs, with a probe that stops nothing if they are not known well enough.
std::optional<Gate::Refusal> Gate::look_at_backlogs(Attempt& attempt) {
  const std::vector<GateStop>& stops = attempt.plan.stops;
  const TimePoint now = clock_.now();
  const auto known = [&](const GateStop& stop) {
    return post_.stand(stop).backlog.known_since(now - look_age_max);
  };
  if (std::ranges::all_of(stops, known)) return std::nullopt;
  Arrivals arrivals(clock_, next_epoch(), stops.size());
  const std::vector<Backlog> unknown(stops.size());
  if (auto refusal = enqueue(attempt, arrivals, schedule_stops(unknown), Kind::probe)) {
    return refusal;
  }
  let_turn_go(attempt);  // The backlogs may be deep.
  const TimePoint asked = clock_.now();
  poll_until(clock_, later(asked, attempt.limits.wait_limit), [&] {
    arrivals.look();
    return arrivals.all() || attempt.unwanted();
  });
  learn(attempt, arrivals);
  if (arrivals.all()) return std::nullopt;
  if (attempt.unwanted()) return given_back();
  return not_arrived(
      attempt, arrivals,
      fmt::format("did not finish earlier work within {:.0f} ms (nothing was stopped)",
                  in_ms(clock_.now() - asked)));
}

Gate::Refusal Gate::not_arrived(const Attempt& attempt, const Arrivals& arrivals,
                                std::string_view how) {
  constexpr std::size_t names_max = 4;
  const std::vector<GateStop>& stops = attempt.plan.stops;
  std::size_t missing = 0;
  std::string names;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    if (arrivals.has(i) || ++missing > names_max) continue;
    const GatePost::Stand& stand = post_.stand(stops[i]);
    names += fmt::format("{} {}", missing > 1 ? "," : "", name_of(stops[i], stand));
    const nanoseconds depth = stand.backlog.depth();
    if (depth > nanoseconds(0)) {
      names += fmt::format(" (its backlog lasted {:.1f} ms when last measured)", in_ms(depth));
    }
  }
  if (missing > names_max) names += fmt::format(" and {} more", missing - names_max);
  return {StopRefusal::not_arrived,
          fmt::format("{} of {} streams {}:{}", missing, stops.size(), how, names)};
}

/// The stream whose backlog varies most between observations.
std::string Gate::most_varying(const Attempt& attempt) {
  const auto most = std::ranges::max_element(attempt.backlogs, {}, &Backlog::error);
  const GateStop& stop =
      attempt.plan.stops[static_cast<std::size_t>(most - attempt.backlogs.begin())];
  return name_of(stop, post_.stand(stop));
}

void Gate::learn(Attempt& attempt, const Arrivals& arrivals) {
  const TimePoint now = clock_.now();
  for (std::size_t i = 0; i < attempt.plan.stops.size(); ++i) {
    Backlog& backlog = post_.stand(attempt.plan.stops[i]).backlog;
    const auto depth = arrivals.depth(i);
    if (depth) {
      backlog.saw(now, *depth);
    } else if (!arrivals.has(i)) {
      backlog.forget();
    }
  }
}

/// The deepest backlog first, the others so that they arrive with it; but if one arrives early, the
/// others follow at once.
std::optional<Gate::Refusal> Gate::stop_all(Attempt& attempt, Arrivals& arrivals) {
  const std::vector<StopStart> starts = schedule_stops(attempt.backlogs);
  set_chains(attempt);  // Before anything is stopped.
  const TimePoint begun = clock_.now();
  attempt.turn_end = later(begun, attempt.limits.turn_limit);
  try_turn(attempt);
  const nanoseconds deepest = attempt.backlogs[starts.front().index].depth();
  begin(later(begun + deepest, attempt.limits.arrival_limit));
  const std::span<const StopStart> all(starts);
  for (std::size_t first = 0; first < starts.size();) {
    std::size_t end = first;
    while (end < starts.size() && starts[end].after == starts[first].after) ++end;
    if (starts[first].after > nanoseconds(0)) {
      await_first(attempt, arrivals, begun + starts[first].after);
      if (attempt.unwanted()) return given_back();
    }
    const auto group = all.subspan(first, end - first);
    if (auto refusal = enqueue(attempt, arrivals, group, Kind::stop)) return refusal;
    first = end;
  }
  return std::nullopt;
}

void Gate::set_chains(Attempt& attempt) {
  for (const GateStop& stop : attempt.plan.stops) {
    const GatePost::Stand& stand = post_.stand(stop);
    if (!stop.graphs || is_none(stand.chain)) continue;
    const ChainStep step = post_.step_of(stand, epoch_);
    try {
      driver_.update_chain(stand.chain, {&step, 1});
    } catch (const Error& error) {
      if (!breaks_context(error)) throw;  // Its stop is refused as well, and it is excused.
    }
  }
}

/// The thread checks the limits itself; the watchdog's are a little longer.
std::optional<Gate::Refusal> Gate::await_all(Attempt& attempt, Arrivals& arrivals) {
  const GateLimits& limits = attempt.limits;
  const nanoseconds slack = limits.arrival_limit / 8;
  nanoseconds deepest(0);
  for (const Backlog& backlog : attempt.backlogs) deepest = std::max(deepest, backlog.depth());
  const TimePoint asked = clock_.now();
  const TimePoint wait_end =
      std::min(later(asked, limits.wait_limit), later(later(asked, deepest), limits.overdue_limit));
  be_back_by(later(wait_end, limits.arrival_limit));
  await_first(attempt, arrivals, wait_end);
  const TimePoint end = arrivals.any() ? later(arrivals.first(), attempt.arrival_limit) : wait_end;
  be_back_by(later(end, slack));
  if (arrivals.any()) take_turn(attempt, arrivals, end);
  poll_until(clock_, end, [&] {
    arrivals.look();
    return arrivals.all() || attempt.unwanted();
  });
  if (!arrivals.all() && attempt.unwanted()) return given_back();
  if (!arrivals.all()) excuse_broken(attempt, arrivals);
  learn(attempt, arrivals);
  if (arrivals.all()) {
    if (take_turn(attempt, arrivals, clock_.now())) return std::nullopt;
    return Refusal{StopRefusal::memory_busy,
                   "an allocation or a release was in progress when the streams stopped"};
  }
  if (!arrivals.any()) {
    return not_arrived(
        attempt, arrivals,
        fmt::format("did not finish earlier work within {:.0f} ms (nothing was stopped)",
                    in_ms(clock_.now() - asked)));
  }
  return not_arrived(
      attempt, arrivals,
      fmt::format("did not arrive at the gate within {:.1f} ms after the first stream",
                  in_ms(attempt.arrival_limit)));
}

/// Waits until a stream arrives, at most until `end`. Until then, threads that allocate are delayed
/// only briefly.
void Gate::await_first(Attempt& attempt, Arrivals& arrivals, TimePoint end) {
  const auto come = [&] {
    arrivals.look();
    return arrivals.any() || arrivals.all() || attempt.unwanted();
  };
  const TimePoint turn_end = std::min(end, attempt.turn_end);
  if (attempt.has_turn() && (poll_until(clock_, turn_end, come) || turn_end == end)) return;
  let_turn_go(attempt);
  if (poll_until(clock_, end, come) && arrivals.any()) try_turn(attempt);
}

/// False if another thread's slow driver call is still running at `end`. The watchdog opens the
/// gate if that call waits for stopped work.
bool Gate::take_turn(Attempt& attempt, Arrivals& arrivals, TimePoint end) {
  constexpr nanoseconds look_period = microseconds(20);
  while (!try_turn(attempt)) {
    const TimePoint now = clock_.now();
    if (now >= end || attempt.unwanted()) return false;
    poll_until(clock_, std::min(end, later(now, look_period)), [&] {
      arrivals.look();
      return false;
    });
  }
  return true;
}

/// On all of these back to back: each call in between adds to the skew.
std::optional<Gate::Refusal> Gate::enqueue(Attempt& attempt, Arrivals& arrivals,
                                           std::span<const StopStart> starts, Kind kind) {
  if (auto refusal = find_capture(attempt, starts, arrivals)) return refusal;
  for (const StopStart& start : starts) enqueue_one(attempt, arrivals, start.index, kind);
  // A capture that began in between may have taken what was enqueued. One that begins from here on
  // finds it in the stream.
  auto refusal = find_capture(attempt, attempt.unseen, arrivals);
  attempt.captured = refusal.has_value();
  if (!refusal) attempt.unseen.clear();
  return refusal;
}

void Gate::enqueue_one(Attempt& attempt, Arrivals& arrivals, std::size_t index, Kind kind) {
  const GateStop& stop = attempt.plan.stops[index];
  GatePost::Stand& stand = post_.stand(stop);
  attempt.unseen.push_back({index});
  arrivals.expect(index, stand.arrived);
  try {
    if (kind == Kind::stop && stop.graphs) {
      // Without a chain the context is broken and runs no more work.
      if (is_none(stand.chain)) return arrivals.excuse(index);
      driver_.stop(stop.stream, stand.chain);
    } else {
      const ChainStep step = post_.step_of(stand, arrivals.epoch());
      driver_.batch(stop.stream, std::span(step.words).first(kind == Kind::stop ? 2 : 1));
    }
    stand.asked = arrivals.epoch();  // A refused call has enqueued nothing.
  } catch (const Error& error) {
    if (!breaks_context(error)) throw;
    arrivals.excuse(index);  // A broken context runs no more work.
  }
}

bool Gate::captures(const GateStop& stop) {
  return std::ranges::any_of(stop.capture_watched, [&](BoundStream watched) {
    try {
      return driver_.is_capturing(watched);
    } catch (const Error& error) {
      if (!breaks_context(error)) throw;
      return false;
    }
  });
}

/// Polls for arrivals in between, since each query takes a while.
std::optional<Gate::Refusal> Gate::find_capture(const Attempt& attempt,
                                                std::span<const StopStart> starts,
                                                Arrivals& arrivals) {
  for (const StopStart& start : starts) {
    arrivals.look();
    const GateStop& stop = attempt.plan.stops[start.index];
    if (!captures(stop)) continue;
    return Refusal{StopRefusal::capture,
                   fmt::format("{}, or a stream that waits for it, captures a graph",
                               name_of(stop, post_.stand(stop)))};
  }
  return std::nullopt;
}

/// Whether what was enqueued last may have gone into a graph.
bool Gate::may_be_captured(Attempt& attempt) noexcept {
  const auto captured = [&](const StopStart& start) {
    try {
      return captures(attempt.plan.stops[start.index]);
    } catch (const Error& error) {
      return !means_lost_stream(error.native());
    } catch (const std::exception&) {
      return true;
    }
  };
  return attempt.captured || std::ranges::any_of(attempt.unseen, captured);
}

/// A context may have broken since; then it takes no work. A query would end a capture that begins
/// meanwhile; a write that is captured is harmless. It may execute long after the stop, so it has
/// its own epoch: the word is in use until then.
void Gate::excuse_broken(Attempt& attempt, Arrivals& arrivals) {
  for (std::size_t i = 0; i < attempt.plan.stops.size(); ++i) {
    const GateStop& stop = attempt.plan.stops[i];
    if (arrivals.has(i) || captures(stop)) continue;
    GatePost::Stand& stand = post_.stand(stop);
    const ChainStep again = post_.step_of(stand, next_epoch());
    attempt.unseen.push_back({i});
    try {
      driver_.batch(stop.stream, std::span(again.words).first(1));
      stand.asked = again.words[0].value;
    } catch (const Error& error) {
      if (!breaks_context(error)) throw;
      arrivals.excuse(i);
    }
  }
}

}  // namespace vma
