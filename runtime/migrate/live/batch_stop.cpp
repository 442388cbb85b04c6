#include "migrate/live/batch_stop.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"
#include "base/units.hpp"
#include "migrate/migration/phase_timer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <span>
#include <vector>

namespace vma {
namespace {

/// A copy under a gate may take this many times the link's nominal time, for other traffic.
constexpr int copy_patience = 8;
/// Enough for 256 MiB through a host link; more only delays the next try.
constexpr double slowest_link_bytes_per_s = 20e9;

/// A program may attach and detach streams faster than gates close. After this many tries that were
/// given up for it, both wait for the next try, which waits for the streams no longer than this.
constexpr int yields_max = 2;
constexpr std::chrono::milliseconds insisting_limit(250);

/// A stop that arrives this much later than the backlogs predict waits behind something that waits
/// for the settling work.
constexpr std::chrono::milliseconds overdue_limit(250);

std::chrono::nanoseconds copy_limit(std::uint64_t size_bytes) {
  const double seconds = static_cast<double>(size_bytes) / slowest_link_bytes_per_s;
  return copy_patience * std::chrono::duration_cast<std::chrono::nanoseconds>(
                             std::chrono::duration<double>(seconds));
}

/// The copier that settles chunks of the batch, which all share it; null if there are none.
LiveCopier* settler_of(const LiveBatch& batch) {
  const auto found = std::ranges::find_if(batch.chunks, &LiveChunk::settles);
  return found == batch.chunks.end() ? nullptr : (*found)->copier;
}

std::vector<Address> allocations_of(const LiveBatch& batch) {
  std::vector<Address> allocations;
  for_each_range(batch,
                 [&](const LiveRange& range) { allocations.push_back(range.allocation.begin()); });
  return allocations;
}

}  // namespace

BatchStop::BatchStop(const MoveParts& parts, const LiveRanges& ranges, LiveBatch& batch,
                     std::chrono::nanoseconds max_stall)
    : parts_(parts),
      driver_(parts.memory.driver()),
      clock_(driver_.clock()),
      ranges_(ranges),
      batch_(batch),
      allocations_(allocations_of(batch)),
      max_stall_(max_stall),
      insists_(batch.yields >= yields_max),
      settler_(settler_of(batch)),
      slow_call_turn_(parts.memory.chunks().slow_calls().turn()) {}

/// The program wants a stream or memory back, or wants a migration to end.
bool BatchStop::given_up() const noexcept {
  return (streams_->wanted() && !insists_) || ranges_.any_unwanted();
}

void BatchStop::keep_streams() {
  if (!nobody_attaches_) nobody_attaches_.emplace(parts_.stops.attached().attaching());
}

GateLimits BatchStop::limits() {
  // Nothing is stopped until the first stream arrives, but other moves and allocations wait for
  // this try.
  constexpr std::chrono::seconds wait_limit(2);
  GateLimits limits;
  // A collective that the gate has cut in two is stopped until it opens: the first tries find that
  // out sooner, and only the last ones use a limit that was widened.
  constexpr int halvings = 2;
  constexpr int tries_patient = 5;
  const std::chrono::nanoseconds first_limit = parts_.limits.gate_limit;
  limits.arrival_limit = batch_.gate_limit;
  limits.arrival_limit_min = batch_.tries < tries_patient
                                 ? first_limit / (1 << std::max(0, halvings - batch_.tries))
                                 : std::max(first_limit, batch_.gate_limit / 2);
  limits.wait_limit = insists_ ? insisting_limit : wait_limit;
  limits.turn = &slow_call_turn_;
  limits.given_up = [this] { return given_up(); };
  limits.skew_limit = batch_.gate_limit;
  limits.settle_limit = batch_.gate_limit;
  // Others may wait for the settling work, which by then waits in the application's context.
  if (settler_ != nullptr && batch_.way() == Way::live) limits.overdue_limit = overdue_limit;
  if (batch_.way() == Way::stopped) {
    limits.settle_limit += copy_limit(batch_.front().transaction.size_bytes());
  }
  return limits;
}

std::optional<Gate::Refusal> BatchStop::run() {
  ProcessExit::hold_back();
  const Stops::Turn turn(parts_.stops);
  GatePost& post = turn.gate_post();
  const Measuring measuring(clock_);
  slow_call_turn_.take();                         // No slow work beside a closed gate.
  parts_.memory.chunks().keepers().warm_grant();  // With nothing stopped yet.
  if (insists_) keep_streams();
  name_streams();
  if (plan_.stops.empty()) {
    slow_call_turn_.let_go();
    return Gate::Refusal{StopRefusal::streams_changed,
                         "the program detached every stream that may use the memory"};
  }
  post.prepare(plan_);
  post.prune();
  Gate gate(driver_, post, [this] { let_settling_go(); });
  std::optional<Gate::Refusal> refusal;
  try {
    asked_ = clock_.now();
    refusal = settler_ != nullptr ? look_and_arm(gate, post) : pause_loads();
    if (!refusal) refusal = stop_and_switch(gate);
  } catch (...) {
    gate.open();
    slow_call_turn_.let_go();
    streams_->end();
    nobody_attaches_.reset();
    times_ = gate.times();
    let_all_go();
    no_loads_.reset();
    throw;
  }
  gate.open();
  slow_call_turn_.let_go();
  streams_->end();
  nobody_attaches_.reset();
  times_ = gate.times();
  let_all_go();
  no_loads_.reset();
  return refusal;
}

/// Only now: a thread that detaches a stream waits for its use, and turns may take long.
void BatchStop::name_streams() {
  last_attach_ = parts_.stops.attached().last_attach(allocations_);
  streams_.emplace(parts_.stops.attached(), allocations_);
  plan_ = plan_gate(streams_->streams());
}

/// Measures the backlogs while nothing is stopped yet; with one stream only if it was late before.
std::optional<Gate::Refusal> BatchStop::look_and_arm(Gate& gate, GatePost& post) {
  if (plan_.stops.size() > 1 || batch_.overdue) {
    GateLimits looking = limits();
    // Kept, since it is short: `attaching` is held, and is taken after the turn everywhere.
    if (insists_) looking.turn = nullptr;
    if (auto refusal = gate.look(plan_, looking)) return refusal;
    slow_call_turn_.take();  // Nothing stands yet, so that it may take its time.
  }
  if (auto refusal = pause_loads()) return refusal;
  arm(post);
  return std::nullopt;
}

/// Waits briefly for a load in progress, which may itself wait for work of the program.
std::optional<Gate::Refusal> BatchStop::pause_loads() {
  no_loads_.emplace(SpareKernels::of_process(), clock_, parts_.limits.gate_limit);
  if (no_loads_->complete()) return std::nullopt;
  return Gate::Refusal{StopRefusal::memory_busy,
                       "vma::free or another call that waits for a context loads code there"};
}

/// The settling work waits on the GPU from here on, before any stream stops: under a closed gate
/// its launch could hang. A thread in cuCtxDestroy waits for it too, and may block this thread in a
/// driver call meanwhile; so the watchdog releases it if needed.
void BatchStop::arm(GatePost& post) {
  const GateLimits all = limits();
  std::vector<std::size_t> bays;
  for (const LiveChunk* const chunk : batch_.chunks) {
    if (chunk->settles) bays.push_back(chunk->bay);
  }
  settler_->arm(bays, batch_.front().range.task->options.paranoid);
  // However long the move may take: nothing waits for the settling work longer than this.
  constexpr std::chrono::seconds limit_min(6);
  std::chrono::nanoseconds deepest(0);
  for (const GateStop& stop : plan_.stops) {
    deepest = std::max(deepest, post.stand(stop).backlog.depth());
  }
  const auto limit = limit_min + deepest + all.arrival_limit + all.settle_limit;
  ticket_ = parts_.stops.watchdog().arm(clock_.now() + limit, [this] { let_settling_go(); });
}

/// It runs in the context whose lock this thread may be waiting for, behind a thread that frees
/// memory.
void BatchStop::let_settling_go() noexcept {
  if (settler_ != nullptr) settler_->go();
}

/// False: the settling was released too early, and is incomplete.
bool BatchStop::go() {
  parts_.stops.watchdog().disarm(ticket_);
  if (settler_->gone()) return false;
  settler_->go();
  return true;
}

std::optional<Gate::Refusal> BatchStop::stop_and_switch(Gate& gate) {
  tried_ = true;
  if (auto refusal = gate.try_close(plan_, limits())) {
    overdue_ = settler_ != nullptr && refusal->why == StopRefusal::not_arrived &&
               gate.times().first_arrival == TimePoint(0);
    return refusal;
  }
  closed_ = clock_.now();
  for_each_range(batch_, [&](LiveRange& range) { range.report.phases.wait += closed_ - asked_; });
  all_stood_ = true;
  if (auto refusal = begin_filling()) return refusal;
  if (auto refusal = switch_first(gate)) return refusal;
  switch_others();
  return std::nullopt;
}

/// Starts to copy what the application wrote since the live copies, or everything.
std::optional<Gate::Refusal> BatchStop::begin_filling() {
  Phases& phases = batch_.front().range.report.phases;
  if (settler_ != nullptr) {
    const PhaseTimer timer(clock_, phases.settle);
    if (!go()) {
      return Gate::Refusal{StopRefusal::opened_by_watchdog,
                           "the work that copies changes started before all streams had stopped"};
    }
    ask();  // While the GPU settles, when it costs nothing.
  }
  if (batch_.way() == Way::stopped) {
    const PhaseTimer timer(clock_, phases.copy);
    for (LiveChunk* const chunk : batch_.chunks) chunk->transaction.start_copy();
  }
  return std::nullopt;
}

std::optional<Gate::Refusal> BatchStop::switch_first(Gate& gate) {
  LiveChunk& first = batch_.front();
  const std::chrono::nanoseconds limit = limits().settle_limit;
  if (!fill(first, closed_ + limit)) {
    return Gate::Refusal{
        StopRefusal::settle_late,
        fmt::format("{} was not copied within {:.1f} ms while the streams were stopped",
                    first.settles ? "what the streams wrote since the first copy" : "the chunk",
                    in_ms(limit))};
  }
  note_filled(first);
  if (clock_.now() - let_through_ >= ask_period) ask();
  // Work of a stream that was attached since the plan was made runs, and may have written after the
  // settling; streams attached from here on wait.
  keep_streams();
  if (parts_.stops.attached().last_attach(allocations_) != last_attach_) {
    return Gate::Refusal{StopRefusal::streams_changed,
                         "the program attached a stream while the gate was closed"};
  }
  if (!gate.commit()) {
    return Gate::Refusal{StopRefusal::opened_by_watchdog,
                         fmt::format("the streams were stopped for longer than {:.1f} ms, mostly "
                                     "by a driver call of the runtime, so the gate was opened",
                                     in_ms(limit))};
  }
  switch_slot(first);
  return std::nullopt;
}

/// As far as the time allows. The next chunk settles while one is switched. The grant that has just
/// returned shows that no other thread keeps the driver from the next one.
void BatchStop::switch_others() {
  const TimePoint end = closed_ + max_stall_;
  for (LiveChunk* const chunk : std::span(batch_.chunks).subspan(1)) {
    if (given_up()) return;
    const auto switching = parts_.forecast.switch_time(chunk->transaction.planned_switch());
    if (clock_.now() + switching > end || !fill(*chunk, end - switching)) return;
    switch_slot(*chunk);
  }
}

/// False: the target is not complete at the deadline.
bool BatchStop::fill(LiveChunk& chunk, TimePoint deadline) {
  Phases& phases = chunk.range.report.phases;
  if (chunk.settles) {
    const PhaseTimer timer(clock_, phases.settle);
    return chunk.copier->settled_by(chunk.bay, deadline);
  }
  if (chunk.choice.way == Way::stopped) {
    const PhaseTimer timer(clock_, phases.copy);
    if (!chunk.transaction.copy_done_by(deadline)) return false;
    chunk.transaction.finish_copy();
  }
  return true;
}

/// The first chunk is filled from the moment at which the gate closes. In a small one other costs
/// outweigh its bytes.
void BatchStop::note_filled(const LiveChunk& first) {
  constexpr std::uint64_t telling_bytes = 16 << 20;
  const std::uint64_t size_bytes = first.transaction.size_bytes();
  if (size_bytes < telling_bytes) return;
  parts_.forecast.note_filled(first.fill(), size_bytes, clock_.now() - closed_);
}

void BatchStop::switch_slot(LiveChunk& chunk) {
  chunk.transaction.switch_slot(chunk.range.report.phases);
  let_through_ = clock_.now();
  parts_.forecast.note_switched(chunk.transaction.planned_switch(), chunk.transaction.dark());
}

/// A thread in cuCtxDestroy blocks every grant and unmap of other threads. Probes that just before
/// the slot goes dark; if the probe blocks, the watchdog opens.
void BatchStop::ask() {
  parts_.memory.chunks().keepers().probe_grant();
  let_through_ = clock_.now();
}

/// From here on the settling runs by itself; `LiveStaging::stand_down` waits for it, without a
/// lock.
void BatchStop::let_all_go() noexcept {
  parts_.stops.watchdog().disarm(ticket_);
  let_settling_go();
}

}  // namespace vma
