#include "migrate/migration/stops.hpp"

#include "base/process_exit.hpp"
#include "migrate/stops/suspension.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace vma {
namespace {

void note_stall(const HeldTimes& times, StopKind kind, StopStats& stats, MigrationReport& report) {
  const std::chrono::nanoseconds stall = times.opened - times.stopped;
  report.stall = {1, stall, stall, stall};
  report.stop = kind;
  stats.add_stall(stall);
}

/// Runs `close_and_switch`, opens whatever comes of it, and calls `note` then.
template <typename Stop, typename Note, typename Body>
void while_stopped(Stop& stop, Note&& note, Body&& close_and_switch) {
  const auto end = [&] {
    stop.open();
    note();
  };
  try {
    close_and_switch();
  } catch (...) {
    end();
    throw;
  }
  end();
}

/// The same for a stop of all work, which stopped from its first try on, if it was tried.
template <typename Stop, typename Body>
void while_all_stopped(Clock& clock, Stop& stop, StopKind kind, StopStats& stats,
                       MigrationReport& report, HeldTimes& times, Body&& close_and_switch) {
  const auto note = [&] {
    if (stop.begun() == TimePoint(0)) return;
    times = {stop.begun(), clock.now()};
    note_stall(times, kind, stats, report);
  };
  while_stopped(stop, note, close_and_switch);
}

}  // namespace

Stops::Turn::Turn(Stops& stops)
    : stops_(stops), lock_((++stops.gates_waiting_, stops.turn_)), gate_post_(stops.gate_post_) {
  --stops.gates_waiting_;
}

Stops::Stops(Memory& memory, bool suspends, OwnContext own_context)
    : memory_(memory),
      suspends_(suspends),
      own_context_(std::move(own_context)),
      watchdog_(memory.driver()),
      suspension_check_(memory.driver(), watchdog_, memory.chunks().ledger()),
      attached_(memory.driver(), memory.topology()),
      gate_post_(memory.driver(), watchdog_, memory.chunks().ledger()) {
  memory.contexts().name_more([this] { return attached_.contexts(); });
  memory.tell_freed([this](Address begin) { attached_.forget_allocation(begin); });
}

Stops::~Stops() {
  memory_.tell_freed(nullptr);
  memory_.contexts().name_more(nullptr);
  const MutexLock turn(turn_);
  const MutexLock slow_work(memory_.chunks().slow_calls().turn());
  gate_post_.drop_chains();
}

/// Created at the first hold that uses a stream of the context.
HoldPost& Stops::hold_post(BoundStream stream) {
  std::unique_ptr<HoldPost>& post = hold_posts_[stream.context];
  if (!post) {
    post = std::make_unique<HoldPost>(memory_.driver(), stream, memory_.chunks().ledger());
  }
  return *post;
}

void Stops::hold_while(BoundStream stream, const HoldLimits& limits, MigrationReport& report,
                       HeldTimes& times, const std::function<void(StoppedWork&)>& body,
                       BeforeHold* before) {
  if (!memory_.driver().has_context_hold()) {
    throw Error(ErrorKind::unsupported, "vma::migrate",
                "this driver cannot hold a context (CUDA 12.5 or newer can); synchronise and set "
                "MigrateOptions::nothing_runs");
  }
  ProcessExit::come_first();
  ProcessExit::hold_back();
  Clock& clock = memory_.driver().clock();
  const MutexLock turn((++holds_waiting_, turn_));
  --holds_waiting_;
  const Measuring measuring(clock);
  HoldPost& post = hold_post(stream);
  std::optional<MutexLock> slow_work;  // From the first stop until the hold is open.
  Hold hold(memory_.driver(), memory_.contexts(), post, watchdog_, limits.patience);
  hold.before_tries([this] { attached_.require_no_capture(memory_.contexts().list()); });
  hold.enqueues(before);
  const TimePoint stop = clock.now();
  while_all_stopped(clock, hold, StopKind::hold, stats(StopKind::hold), report, times, [&] {
    const TimePoint deadline = stop + limits.rest_limit;
    if (before != nullptr) hold.await_work(deadline);
    slow_work.emplace(memory_.chunks().slow_calls().turn());  // None beside a hold but our own.
    if (before_stopping_) before_stopping_();
    hold.close(deadline);
    report.phases.wait += clock.now() - stop;
    report.retries = hold.tries() - 1;
    body(hold);
  });
}

bool Stops::may_suspend(Place from, Place to) {
  return may_suspend(from, to, [this](DeviceId device, ContextHandle program) {
    return check_suspension(device, program);
  });
}

bool Stops::is_known_to_suspend(Place from, Place to) {
  return may_suspend(from, to, [](DeviceId, ContextHandle) { return SuspensionFinding{}; });
}

/// Whether a GPU that may be using the memory would not reach it any more.
bool Stops::loses_reach(Place from, Place to) const {
  const Topology& topology = memory_.topology();
  return std::ranges::any_of(topology.devices(), [&](DeviceId device) {
    return topology.reaches(device, from) && !topology.reaches(device, to);
  });
}

/// `find_out` is asked about GPUs of which nothing is known.
template <typename FindOut>
bool Stops::may_suspend(Place from, Place to, const FindOut& find_out) {
  if (!suspends_ || loses_reach(from, to)) return false;
  bool any = false;
  for (const DeviceId device : memory_.topology().devices()) {
    SuspensionFinding found = suspension_check_.finding(device);
    if (found.state == SuspensionFinding::State::unknown) {
      const ContextHandle program = context_of_program(device);
      if (is_none(program)) continue;
      found = find_out(device, program);
    }
    if (found.state != SuspensionFinding::State::usable) return false;
    any = true;
  }
  return any;
}

bool Stops::gate_arrives_soon(Address allocation) {
  const Turn turn(*this);
  SlowCallTurn slow_work(memory_.chunks().slow_calls().turn());
  slow_work.take();
  const AttachedStreams::Use streams(attached_, allocation);
  const GatePlan plan = plan_gate(streams.streams(), memory_.topology());
  GateLimits limits;
  limits.look_limit = soon;
  limits.turn = &slow_work;
  limits.given_up = [&] { return streams.wanted().load(); };
  GatePost& post = turn.gate_post();
  if (Gate(memory_.driver(), post).look(plan, limits)) return false;
  return std::ranges::all_of(plan.stops, [&](const GateStop& stop) {
    const Backlog& backlog = post.state_of(stop).backlog;
    return !backlog.missed() && backlog.reach() <= soon;
  });
}

/// The kernel module takes one GPU after the other.
StallForecast::Suspending Stops::suspending() const {
  StallForecast::Suspending all;
  for (const DeviceId device : memory_.topology().devices()) {
    const SuspensionFinding found = suspension_check_.finding(device);
    all.off += found.suspend;
    all.on += found.resume;
  }
  return all;
}

std::set<DeviceId> Stops::users(Address allocation, bool suspended) const {
  if (!suspended) return attached_.devices(allocation);
  const std::vector<DeviceId>& all = memory_.topology().devices();
  return {all.begin(), all.end()};
}

/// One that the runtime knows; none if there is none.
ContextHandle Stops::context_of_program(DeviceId device) {
  for (const ContextHandle context : memory_.contexts().list()) {
    try {
      if (memory_.driver().context_device(context) == device) return context;
    } catch (const Error&) {  // The program has just destroyed it.
    }
  }
  return {};
}

SuspensionFinding Stops::check_suspension(DeviceId device) {
  using State = SuspensionFinding::State;
  if (!suspends_)
    return {State::off,
            "VMART_STOP is gate, RuntimeOptions::suspend is false, or ncu profiles the process",
            {},
            {}};
  const ContextHandle program = context_of_program(device);
  if (is_none(program)) return {State::unknown, "the program has no context there yet", {}, {}};
  return check_suspension(device, program);
}

ContextHandle Stops::unchecked(DeviceId device) {
  const bool wanted = suspends_ && suspension_check_.is_due(device);
  return wanted ? context_of_program(device) : ContextHandle{};
}

SuspensionFinding Stops::check_suspension(DeviceId device, ContextHandle program) {
  if (!suspension_check_.is_due(device)) return suspension_check_.finding(device);
  ProcessExit::come_first();
  ProcessExit::hold_back();
  ContextHandle own{};
  try {
    own = own_context_(device);
  } catch (const Error& error) {
    suspension_check_.note_refused(device, error);
    return suspension_check_.finding(device);
  }
  const MutexLock turn((++holds_waiting_, turn_));
  --holds_waiting_;
  // Not `Measuring`: the check waits to see that nothing happens, beside work of other GPUs.
  const MutexLock slow_work(memory_.chunks().slow_calls().turn());
  return suspension_check_.check(device, program, own);
}

std::optional<StopRefusal> Stops::pause_loads(std::optional<SpareKernels::Pause>& pause,
                                              Clock& clock, std::chrono::nanoseconds limit) {
  pause.emplace(SpareKernels::of_process(), clock, limit);
  if (pause->complete()) return std::nullopt;
  return StopRefusal{StopRefusal::memory_busy,
                     "vma::free or another call that waits for a context loads code there"};
}

/// What has been refused twice would be refused to the next move, too.
std::optional<StopRefusal> Stops::close(Suspension& suspension, TimePoint deadline) {
  constexpr int tries = 2;
  for (int number = 1;; ++number) {
    try {
      suspension.close(deadline);
      suspension_check_.note_worked();
      return std::nullopt;
    } catch (const Error& error) {
      if (!suspension.refused()) return StopRefusal{StopRefusal::copies_busy, error.what()};
      if (number < tries && error.kind() != ErrorKind::unsupported) continue;
      for (const DeviceId device : memory_.topology().devices()) {
        suspension_check_.note_refused(device, error);
      }
      return StopRefusal{StopRefusal::suspension_refused, error.what()};
    }
  }
}

std::optional<StopRefusal> Stops::close(Hold& hold, TimePoint deadline) {
  StopRefusal::Why why = StopRefusal::not_arrived;
  hold.before_tries([&] {
    try {
      attached_.require_no_capture(memory_.contexts().list());
    } catch (const Error& error) {
      why = StopRefusal::capture;
      throw Error(ErrorKind::busy, "vma::migrate_async", error.what());  // It will end.
    }
  });
  try {
    hold.close(deadline);
    return std::nullopt;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::busy) throw;
    return StopRefusal{why, error.what()};
  }
}

std::optional<StopRefusal> Stops::suspend_while(const HoldLimits& limits, MigrationReport& report,
                                                HeldTimes& times,
                                                const std::function<void(StoppedWork&)>& body) {
  ProcessExit::come_first();
  ProcessExit::hold_back();
  Clock& clock = memory_.driver().clock();
  const MutexLock turn((++holds_waiting_, turn_));
  --holds_waiting_;
  const Measuring measuring(clock);
  const MutexLock slow_work(memory_.chunks().slow_calls().turn());  // None beside it but our own.
  if (before_stopping_) before_stopping_();
  Suspension suspension(memory_.driver(), watchdog_, memory_.topology().devices(), limits.patience);
  const TimePoint asked = clock.now();
  std::optional<StopRefusal> refusal;
  while_all_stopped(clock, suspension, StopKind::suspension, stats(StopKind::suspension), report,
                    times, [&] {
                      refusal = close(suspension, asked + limits.rest_limit);
                      report.phases.wait += clock.now() - asked;
                      if (!refusal) return body(suspension);
                      if (refusal->why != StopRefusal::suspension_refused) {
                        throw Error(ErrorKind::busy, "vma::migrate", refusal->detail);
                      }
                    });
  return refusal;
}

void Stops::gate_while(const Allocation& allocation, const GatedLimits& limits,
                       MigrationReport& report, HeldTimes& times,
                       const std::function<void(StoppedWork&)>& body) {
  constexpr const char* call = "vma::migrate_async";
  Clock& clock = memory_.driver().clock();
  const TimePoint asked = clock.now(), deadline = later(asked, limits.close);
  std::chrono::nanoseconds arrivals = limits.arrivals;
  for (int tries = 1;; ++tries) {
    report.retries = tries - 1;
    report.gate_limit = arrivals;
    bool stopped = false;  // Some stream was stopped.
    const auto refusal =
        try_gate(allocation, limits, arrivals, deadline, report, times, body, stopped);
    if (!refusal) break;
    if (allocation.being_freed)
      throw Error(ErrorKind::cancelled, call, "the memory is being freed");
    if (clock.now() >= deadline) {
      throw Error(
          ErrorKind::busy, call,
          fmt::format("the streams did not stop together, tried {} time(s); {}: {}. {}", tries,
                      to_string(refusal->why), refusal->detail, advice(refusal->why, stopped)));
    }
    if (refusal->why == StopRefusal::stream_lost) attached_.drop_lost(allocation.begin());
    if (refusal->why == StopRefusal::not_arrived && stopped)
      attached_.stop_together(allocation.begin());
    // Collectives that a gate has cut in two need a while to recover.
    std::chrono::nanoseconds pause = limits.arrivals * tries;
    // All copies of the program have waited for this try.
    if (refusal->why == StopRefusal::copies_busy)
      pause = std::max<std::chrono::nanoseconds>(pause, NoCopyScopes::unstopped_limit);
    arrivals = std::min(2 * arrivals, std::max(limits.arrivals, limits.arrivals_max));
    nap_until(clock, std::min(deadline, later(clock.now(), pause)));
  }
  report.phases.wait += times.stopped - asked;
}

/// Nothing is stopped on return.
std::optional<StopRefusal> Stops::try_gate(const Allocation& allocation, const GatedLimits& limits,
                                           std::chrono::nanoseconds arrivals, TimePoint deadline,
                                           MigrationReport& report, HeldTimes& times,
                                           const std::function<void(StoppedWork&)>& body,
                                           bool& stopped) {
  ProcessExit::come_first();
  ProcessExit::hold_back();
  const Turn turn(*this);
  Clock& clock = memory_.driver().clock();
  const Measuring measuring(clock);
  SlowCallTurn slow_calls(memory_.chunks().slow_calls().turn());
  std::optional<SpareKernels::Pause> no_loads;
  GateStreams streams(attached_, memory_.topology(), {allocation.begin()});
  GatePost& post = turn.gate_post();
  Gate gate(memory_.driver(), post);
  GateLimits of_try;
  of_try.settle_limit = limits.patience;
  of_try.arrival_limit = of_try.arrival_limit_min = of_try.skew_limit = arrivals;
  of_try.turn = &slow_calls;
  of_try.given_up = [&] { return streams.wanted() || allocation.being_freed; };
  const auto close = [&]() -> std::optional<StopRefusal> {
    slow_calls.take();  // No slow work beside a closed gate.
    if (auto refusal = pause_loads(no_loads, clock, limits.arrivals)) return refusal;
    memory_.chunks().keepers().rehearse_switch();  // With nothing stopped yet.
    streams.name();
    if (auto refusal = streams.require_any()) return refusal;
    post.prepare(streams.plan());
    post.prune();
    // From here on, since the turns may have been waited for.
    of_try.wait_limit = of_try.look_limit = std::max(arrivals, deadline - clock.now());
    if (auto refusal = gate.try_close(streams.plan(), of_try)) return refusal;
    return streams.require_same();
  };
  // As a gate of live moves counts: it stopped if it closed, until it was opened by whomever.
  std::optional<StopRefusal> refusal;
  bool closed = false;
  const auto note = [&] {
    stopped = gate.times().first_arrival > TimePoint(0);
    if (!closed) return;
    times = {gate.times().last_arrival, gate.times().opened};
    stats().add_skew(gate.times().skew());
    note_stall(times, StopKind::gate, stats(), report);
  };
  while_stopped(gate, note, [&] {
    refusal = close();
    closed = !refusal;
    if (closed) body(gate);
  });
  if (refusal) stats().add_refusal(refusal->why);
  return refusal;
}

}  // namespace vma
