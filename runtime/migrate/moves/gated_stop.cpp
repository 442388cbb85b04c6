#include "migrate/moves/gated_stop.hpp"

#include "base/process_exit.hpp"
#include "driver/spare_kernels.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vma {
namespace {

constexpr const char* gated_call = "vma::migrate_async";

}  // namespace

GatedStop::GatedStop(const MoveParts& parts, const Allocation& allocation, const Limits& limits)
    : parts_(parts),
      clock_(parts.memory.driver().clock()),
      allocation_(allocation),
      limits_(limits),
      gate_limit_(parts.limits.gate_limit) {}

void GatedStop::run(MigrationReport& report, HeldTimes& times,
                    const std::function<void(StoppedWork&)>& body) {
  const TimePoint asked = clock_.now();
  deadline_ = later(asked, limits_.close);
  const auto note = [&] {
    times = times_;
    report.retries = tries_ - 1;
    report.gate_limit = gate_limit_;
    const std::chrono::nanoseconds stall = times.opened - times.stopped;
    if (stall.count() == 0) return;
    report.stall = {1, stall, stall, stall};
    report.stop = StopKind::gate;
  };
  try {
    while (const std::optional<GateRefusal> refusal = attempt(body)) {
      if (allocation_.being_freed) {
        throw Error(ErrorKind::cancelled, gated_call, "the memory is being freed");
      }
      if (clock_.now() >= deadline_) {
        throw Error(
            ErrorKind::busy, gated_call,
            fmt::format("the streams did not stop together, tried {} time(s); {}: {}. {}", tries_,
                        to_string(refusal->why), refusal->detail, advice(refusal->why, stood_)));
      }
      prepare_for_next(*refusal);
    }
  } catch (...) {
    note();
    throw;
  }
  report.phases.wait += times_.stopped - asked;
  note();
}

void GatedStop::prepare_for_next(const GateRefusal& refusal) {
  AttachedStreams& attached = parts_.stops.attached();
  if (refusal.why == StopRefusal::stream_lost) attached.drop_lost(allocation_.begin());
  if (refusal.why == StopRefusal::not_arrived && stood_)
    attached.stop_together(allocation_.begin());
  // Collectives that a gate has cut in two need a while to recover.
  std::chrono::nanoseconds pause = parts_.limits.gate_limit * tries_;
  // All copies of the program have waited for this try.
  if (refusal.why == StopRefusal::copies_busy)
    pause = std::max<std::chrono::nanoseconds>(pause, NoCopies::unstopped_limit);
  const TimePoint next = std::min(deadline_, later(clock_.now(), pause));
  gate_limit_ =
      std::min(2 * gate_limit_, std::max(parts_.limits.gate_limit, parts_.limits.gate_limit_max));
  nap_until(clock_, next);
}

/// Nothing is stopped on return.
std::optional<GateRefusal> GatedStop::attempt(const std::function<void(StoppedWork&)>& body) {
  ProcessExit::come_first();
  ProcessExit::hold_back();
  Stops::Turn turn(parts_.stops);
  const Measuring measuring(clock_);
  SlowCallTurn slow_calls(parts_.memory.chunks().slow_calls().turn());
  std::optional<SpareKernels::Pause> no_loads;
  GateStreams streams(parts_.stops.attached(), parts_.memory.topology(), {allocation_.begin()});
  Gate gate(parts_.memory.driver(), turn.gate_post());
  std::optional<GateRefusal> refusal;
  const auto end = [&] {
    gate.open();
    times_ = {gate.times().last_arrival, gate.times().opened};
    stood_ = gate.times().first_arrival > TimePoint(0);
    slow_calls.let_go();
    streams.let_go();
  };
  ++tries_;
  try {
    slow_calls.take();  // No slow work beside a closed gate.
    no_loads.emplace(SpareKernels::of_process(), clock_, parts_.limits.gate_limit);
    if (no_loads->complete()) {
      refusal = close(gate, streams, slow_calls, turn.gate_post());
    } else {
      refusal = GateRefusal{StopRefusal::memory_busy,
                            "vma::free or another call that waits for a context loads code there"};
    }
    if (!refusal) body(gate);
  } catch (...) {
    end();
    throw;
  }
  end();
  return refusal;
}

std::optional<GateRefusal> GatedStop::close(Gate& gate, GateStreams& streams,
                                            SlowCallTurn& slow_calls, GatePost& post) const {
  parts_.memory.chunks().keepers().warm_grant();  // With nothing stopped yet.
  streams.name();
  if (auto refusal = streams.require_any()) return refusal;
  post.prepare(streams.plan());
  post.prune();
  GateLimits limits;
  limits.arrival_limit = limits.arrival_limit_min = limits.skew_limit = gate_limit_;
  limits.wait_limit = limits.look_limit = std::max(gate_limit_, deadline_ - clock_.now());
  limits.settle_limit = limits_.patience;
  limits.turn = &slow_calls;
  limits.given_up = [&] { return streams.wanted() || allocation_.being_freed; };
  if (auto refusal = gate.try_close(streams.plan(), limits)) return refusal;
  return streams.require_same();
}

}  // namespace vma
