#include "migrate/live/batch_stop.hpp"

#include "base/process_exit.hpp"
#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <span>
#include <utility>
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
/// for the settling work. Not yet if the program has merely become slower by some times, as while
/// the memory that it uses moves away from it.
constexpr std::chrono::milliseconds overdue_limit(250);
constexpr int overdue_backlogs = 16;

std::chrono::nanoseconds copy_limit(std::uint64_t size_bytes) {
  const double seconds = static_cast<double>(size_bytes) / slowest_link_bytes_per_s;
  return copy_patience * std::chrono::duration_cast<std::chrono::nanoseconds>(
                             std::chrono::duration<double>(seconds));
}

std::vector<Address> begins_of(const LiveBatch& batch) {
  std::vector<Address> allocations;
  for_each_range(batch,
                 [&](const LiveRange& range) { allocations.push_back(range.allocation.begin()); });
  return allocations;
}

}  // namespace

std::vector<BatchStop::Settler> BatchStop::settlers_of(const LiveBatch& batch) {
  std::vector<Settler> settlers;
  for (const LiveChunk* const chunk : batch.chunks) {
    const bool listed =
        std::ranges::find(settlers, chunk->copier, &Settler::copier) != settlers.end();
    if (chunk->settles && !listed) settlers.push_back({chunk->copier, {}, false});
  }
  return settlers;
}

BatchStop::BatchStop(MigrationParts& parts, const LiveRanges& ranges, LiveBatch& batch,
                     std::chrono::nanoseconds max_stall, Stops::Turn& turn)
    : parts_(parts),
      driver_(parts.memory.driver()),
      clock_(driver_.clock()),
      ranges_(ranges),
      batch_(batch),
      turn_(turn),
      post_(turn.gate_post()),
      max_stall_(max_stall),
      insists_(batch.yields >= yields_max),
      stop_(batch.stop()),
      settlers_(settlers_of(batch)),
      streams_(parts.stops.attached(), parts.memory.topology(), begins_of(batch)),
      slow_call_turn_(parts.memory.chunks().slow_calls().turn()),
      gate_(driver_, post_, [this] { let_settling_go(); }) {}

/// The program wants a stream or memory back, or wants a migration to end.
bool BatchStop::given_up() const noexcept {
  return (streams_.wanted() && !insists_) || ranges_.any_unwanted();
}

GateLimits BatchStop::limits() {
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
  // Nothing is stopped until the first stream arrives, but other moves wait for this try.
  limits.wait_limit = insists_ ? insisting_limit : batch_.deadline - clock_.now();
  const bool others_wait = parts_.stops.waiting().any();
  limits.look_limit = std::min<std::chrono::nanoseconds>(
      limits.wait_limit, others_wait ? LiveBatch::turn_limit_min : batch_.turn_limit());
  if (batch_.front().choice.gives_way) {
    limits.arrival_limit = limits.wait_limit = limits.look_limit = Stops::soon;
  }
  limits.turn = &slow_call_turn_;
  limits.given_up = [this] { return given_up(); };
  limits.skew_limit = batch_.gate_limit;
  limits.settle_limit = batch_.gate_limit;
  limits.tells_ahead = batch_.blocked;
  // Others may wait for the settling work, which by then waits in the application's context.
  if (!settlers_.empty() && batch_.way() == Way::live) {
    limits.overdue_limit = overdue_limit + overdue_backlogs * deepest_backlog();
  }
  if (batch_.way() == Way::stopped) {
    limits.settle_limit += copy_limit(batch_.front().transaction.size_bytes());
  }
  return limits;
}

// --- Before the streams stop

/// Nothing is left of the try if it was refused or failed.
template <typename Body>
std::optional<StopRefusal> BatchStop::off_unless_done(Body&& body) {
  const Measuring measuring(clock_);
  try {
    auto refusal = body();
    if (refusal) call_off();
    return refusal;
  } catch (...) {
    call_off();
    throw;
  }
}

std::optional<StopRefusal> BatchStop::look() {
  auto refusal = off_unless_done([this] { return look_at_streams(); });
  call_off();
  return refusal;
}

/// With one stream only if it was late before.
std::optional<StopRefusal> BatchStop::look_at_streams() {
  ProcessExit::hold_back();
  slow_call_turn_.take();  // For the words of streams that were not stopped before.
  if (insists_) streams_.keep();
  streams_.name();
  const GatePlan& plan = streams_.plan();
  if (plan.stops.empty() || (plan.stops.size() == 1 && !batch_.overdue)) return std::nullopt;
  post_.prepare(plan);
  GateLimits looking = limits();
  // Kept, since it is short: `attaching` is held, and is taken after the turn everywhere.
  if (insists_) looking.turn = nullptr;
  return gate_.look(plan, looking);
}

std::optional<StopRefusal> BatchStop::send() {
  return off_unless_done([this] { return tell_streams(); });
}

std::optional<StopRefusal> BatchStop::tell_streams() {
  ProcessExit::hold_back();
  slow_call_turn_.take();  // No slow work beside a closed gate.
  parts_.copiers.await_engines();
  parts_.memory.chunks().keepers().warm_grant();  // With nothing stopped yet.
  let_through_ = clock_.now();
  if (stop_ != StopKind::gate) {
    in_use_ = parts_.stops.users(batch_.front().range.allocation.begin(), true);
  } else {
    if (insists_) streams_.keep();
    streams_.name();
    if (auto refusal = streams_.require_any()) return refusal;
    in_use_ = streams_.gpus();
    post_.prepare(streams_.plan());
    post_.prune();
  }
  asked_ = clock_.now();
  if (auto refusal = pause_loads()) return refusal;
  if (!settlers_.empty()) arm();
  tried_ = true;
  if (stop_ != StopKind::gate) return std::nullopt;
  return gate_.send(streams_.plan(), limits());
}

/// Waits briefly for a load in progress, which may itself wait for work of the program.
std::optional<StopRefusal> BatchStop::pause_loads() {
  no_loads_.emplace(SpareKernels::of_process(), clock_, parts_.limits.gate_limit);
  if (no_loads_->complete()) return std::nullopt;
  return StopRefusal{StopRefusal::memory_busy,
                     "vma::free or another call that waits for a context loads code there"};
}

/// The settling work waits on the GPU from here on, before any stream stops: under a closed gate
/// its launch could hang. A thread in cuCtxDestroy waits for it too, and may block this thread in a
/// driver call meanwhile; so the watchdog releases it if needed.
void BatchStop::arm() {
  const GateLimits all = limits();
  for (Settler& settler : settlers_) {
    std::vector<std::size_t> bays;
    for (const LiveChunk* const chunk : batch_.chunks) {
      if (chunk->settles && chunk->copier == settler.copier) bays.push_back(chunk->bay);
    }
    settler.settling = settler.copier->arm(bays, batch_.front().range.task->options.paranoid);
    settler.armed = true;
  }
  // However long the move may take: nothing waits for the settling work longer than this.
  constexpr std::chrono::seconds limit_min(6);
  const auto limit =
      limit_min + (1 + overdue_backlogs) * deepest_backlog() + all.arrival_limit + all.settle_limit;
  ticket_ = parts_.stops.watchdog().arm(later(clock_.now(), limit), [this] { let_settling_go(); });
}

/// As last observed, or deeper by as much as that varies. Requires: the post is prepared for the
/// plan.
std::chrono::nanoseconds BatchStop::deepest_backlog() const {
  std::chrono::nanoseconds deepest(0);
  for (const GateStop& stop : streams_.plan().stops) {
    deepest = std::max(deepest, post_.state_of(stop).backlog.reach());
  }
  return deepest;
}

bool BatchStop::await_first(TimePoint until) {
  if (stop_ != StopKind::gate) return true;
  const Measuring measuring(clock_);
  return gate_.await_first(until);
}

// --- While the streams are stopped

std::optional<StopRefusal> BatchStop::switch_chunks() {
  const Measuring measuring(clock_);
  std::optional<StopRefusal> refusal;
  std::exception_ptr failure;
  try {
    refusal = close_and_switch();
  } catch (...) {
    failure = std::current_exception();
  }
  open();
  for (LiveChunk* const chunk : batch_.chunks) {
    try {
      chunk->transaction.grant_rest(chunk->range.report.phases);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  call_off();
  if (failure) std::rethrow_exception(failure);
  return refusal;
}

void BatchStop::call_off() noexcept {
  open();
  slow_call_turn_.let_go();
  streams_.let_go();
  if (stop_ == StopKind::gate) times_ = gate_.times();
  // From here on the settling runs by itself; `LiveStaging::end_try` waits for it, without a
  // lock.
  parts_.stops.watchdog().disarm(std::exchange(ticket_, Watchdog::Ticket::none));
  let_settling_go();
  no_loads_.reset();
}

/// It runs in the context whose lock this thread may be waiting for, behind a thread that frees
/// memory.
void BatchStop::let_settling_go() noexcept {
  for (const Settler& settler : settlers_) {
    if (settler.armed) settler.copier->go(settler.settling);
  }
}

/// False: the settling was released too early, and is incomplete.
bool BatchStop::go() {
  parts_.stops.watchdog().disarm(std::exchange(ticket_, Watchdog::Ticket::none));
  const auto gone = [](const Settler& settler) { return settler.copier->gone(settler.settling); };
  if (std::ranges::any_of(settlers_, gone)) return false;
  let_settling_go();
  gone_ = clock_.now();
  return true;
}

/// Stops what the batch wants to be stopped.
std::optional<StopRefusal> BatchStop::close() {
  if (stop_ == StopKind::suspension) return suspend();
  return stop_ == StopKind::hold ? hold() : gate_.close();
}

std::optional<StopRefusal> BatchStop::suspend() {
  suspension_.emplace(driver_, parts_.stops.watchdog(), parts_.memory.topology().devices(),
                      limits().settle_limit);
  if (auto refusal = parts_.stops.close(*suspension_, clock_.now() + batch_.gate_limit)) {
    suspension_.reset();
    return refusal;
  }
  times_.first_arrival = times_.last_arrival = suspension_->begun();
  off_took_ = clock_.now() - suspension_->begun();
  stopped_ = &*suspension_;
  return std::nullopt;
}

/// The work goes on while its end is waited for.
std::optional<StopRefusal> BatchStop::hold() {
  const LiveChunk& first = batch_.front();
  const BoundStream stream =
      parts_.engine.spare_stream(first.transaction.from(), first.range.task->to, CopyUnder::hold);
  hold_.emplace(driver_, parts_.memory.contexts(), turn_.hold_post(stream), parts_.stops.watchdog(),
                limits().settle_limit);
  if (auto refusal = parts_.stops.close(*hold_, clock_.now() + limits().look_limit)) {
    hold_.reset();
    return refusal;
  }
  times_.first_arrival = times_.last_arrival = clock_.now();
  stopped_ = &*hold_;
  return std::nullopt;
}

/// From here on nothing but `open` lets the work go on. False: it already goes on.
bool BatchStop::commit() {
  if (stop_ == StopKind::gate) return gate_.commit();
  try {
    stopped_->begin_dark();
    is_dark_ = true;
    return true;
  } catch (const Error&) {
    return false;
  }
}

void BatchStop::open() noexcept {
  if (stop_ == StopKind::gate) return gate_.open();
  if (std::exchange(is_dark_, false)) stopped_->end_dark();
  const TimePoint begun = clock_.now();
  if (suspension_) suspension_->open();
  if (hold_) hold_->open();
  if (std::exchange(stopped_, nullptr) != nullptr) {
    times_.opened = clock_.now();
    if (suspension_) parts_.forecast.note_suspended({off_took_, times_.opened - begun});
  }
  suspension_.reset();
  hold_.reset();
}

std::optional<StopRefusal> BatchStop::close_and_switch() {
  if (auto refusal = close()) {
    overdue_ = stop_ == StopKind::gate && !settlers_.empty() &&
               refusal->why == StopRefusal::not_arrived &&
               gate_.times().first_arrival == TimePoint(0);
    return refusal;
  }
  closed_ = clock_.now();
  for_each_range(batch_, [&](LiveRange& range) { range.report.phases.wait += closed_ - asked_; });
  all_stood_ = true;
  if (auto refusal = begin_filling()) return refusal;
  if (auto refusal = switch_first()) return refusal;
  switch_others();
  return std::nullopt;
}

/// Starts to copy what the application wrote since the live copies, or everything.
std::optional<StopRefusal> BatchStop::begin_filling() {
  Phases& phases = batch_.front().range.report.phases;
  if (!settlers_.empty()) {
    const PhaseTimer timer(clock_, phases.settle);
    if (!go()) {
      return StopRefusal{StopRefusal::opened_by_watchdog,
                         "the work that copies changes started before everything had stopped"};
    }
  }
  if (batch_.way() == Way::stopped) {
    const PhaseTimer timer(clock_, phases.copy);
    for (LiveChunk* const chunk : batch_.chunks)
      chunk->transaction.start_copy(batch_.copies_under());
  }
  return std::nullopt;
}

/// A chunk that settles does so while its slot is switched, which is not used meanwhile: settling
/// goes through other mappings. But an unmap would wait for the copy engine.
std::optional<StopRefusal> BatchStop::switch_first() {
  LiveChunk& first = batch_.front();
  const std::chrono::nanoseconds limit = limits().settle_limit;
  if (!first.settles) {
    if (!fill(first, closed_ + limit)) return not_filled(first, limit);
    note_filled(first);
  }
  if (clock_.now() - let_through_ >= ask_period) ask();
  // Work of a stream that was attached since the plan was made runs, and may have written after the
  // settling; streams attached from here on wait.
  if (stop_ == StopKind::gate) {
    if (auto refusal = streams_.require_same()) return refusal;
  }
  if (!commit()) {
    return StopRefusal{
        StopRefusal::opened_by_watchdog,
        fmt::format("{} stopped for longer than {:.1f} ms, mostly by a driver call of the runtime, "
                    "so {}",
                    stop_ != StopKind::gate ? "the program's work was" : "the streams were",
                    in_ms(limit),
                    stop_ != StopKind::gate ? "it was let go on" : "the gate was opened")};
  }
  show(first);
  if (first.settles) {
    const bool waits = !first.copier->settled(first.bay);
    if (!fill(first, closed_ + limit)) {
      first.transaction.take_back(first.range.report.phases);
      return not_filled(first, limit);
    }
    if (waits) note_filled(first);
    note_settled(first);
  }
  first.transaction.keep_target();
  return std::nullopt;
}

StopRefusal BatchStop::not_filled(const LiveChunk& chunk, std::chrono::nanoseconds limit) const {
  return {StopRefusal::settle_late,
          fmt::format("{} was not copied within {:.1f} ms while {} stopped",
                      chunk.settles ? "what was written since the first copy" : "the chunk",
                      in_ms(limit),
                      stop_ == StopKind::gate ? "the streams were" : "the program's work was")};
}

/// As far as the time allows. The next chunk settles while one is switched. The grant that has just
/// returned shows that no other thread keeps the driver from the next one.
void BatchStop::switch_others() {
  const TimePoint end =
      max_stall_ + (suspension_ ? suspension_->begun() - parts_.suspending().on : closed_);
  for (LiveChunk* const chunk : std::span(batch_.chunks).subspan(1)) {
    if (given_up()) return;
    const auto switching = parts_.forecast.switch_time(chunk->transaction.planned_switch(in_use_));
    if (clock_.now() + switching > end || !fill(*chunk, end - switching)) return;
    show(*chunk);
    note_settled(*chunk);
    chunk->transaction.keep_target();
  }
}

/// What was settled by now shows how long settling takes at most, however long the switches took.
void BatchStop::note_settled(const LiveChunk& chunk) {
  if (!chunk.settles || settlers_.size() != 1) return;
  settled_bytes_ += chunk.transaction.size_bytes();
  parts_.forecast.note_filled_within(chunk.fill(), settled_bytes_, clock_.now() - gone_);
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
/// outweigh its bytes. Requires: the caller had to wait for it.
void BatchStop::note_filled(const LiveChunk& first) {
  constexpr std::uint64_t telling_bytes = 16 << 20;
  const std::uint64_t size_bytes = first.transaction.size_bytes();
  if (size_bytes < telling_bytes) return;
  const TimePoint begin = first.settles ? gone_ : closed_;
  parts_.forecast.note_filled(first.fill(), size_bytes, clock_.now() - begin);
}

/// GPUs on which no attached stream runs get access once the gate is open: work there must not use
/// the slot meanwhile, and each grant would make the stop longer.
void BatchStop::show(LiveChunk& chunk) {
  chunk.transaction.show_target(in_use_, chunk.range.report.phases);
  let_through_ = clock_.now();
  parts_.forecast.note_switched(chunk.transaction.planned_switch(in_use_),
                                chunk.transaction.dark());
}

/// A thread in cuCtxDestroy blocks every grant and unmap of other threads. Probes that just before
/// the slot goes dark; if the probe blocks, the watchdog opens.
void BatchStop::ask() {
  parts_.memory.chunks().keepers().probe_grant();
  let_through_ = clock_.now();
}

}  // namespace vma
