#include "scheduling/scheduler.hpp"

#include "costs/move_time.hpp"
#include "placement/planning/group_limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <set>
#include <utility>

namespace vma {
namespace {

/// What programs ask for goes first; then what policies want somewhere, then what makes room for
/// that.
constexpr int wanted_priority = -1, victim_priority = -2;
static_assert(victim_priority < wanted_priority && wanted_priority < 0);

}  // namespace

// --- From wishes to moves

/// `awaited`: somebody waits for the room that the plan makes.
void Scheduler::carry_out(const Plan& plan, bool awaited) {
  if (plan.empty()) return;
  stats_.moves_wanted += plan.moves().size();
  const Snapshot snapshot(*tables_);
  const PlanOutcome outcome = planner_.plan(plan, snapshot);
  keep_waiting(outcome.accepted, awaited);
  for (const RejectedMove& rejected : outcome.rejected) {
    ++stats_.moves_refused[std::string(to_string(rejected.reason))];
    Decision decision = decision_of(DecisionKind::refused, rejected.move.chunk);
    decision.plan = plans_;
    decision.wish = rejected.move.reason;
    decision.reason = fmt::format("{}: {}", to_string(rejected.reason), rejected.detail);
    decision.value = rejected.move.value;
    decision.victim = rejected.move.victim;
    if (index(rejected.move.chunk) < snapshot.chunks().size())
      decision.from = roster_.location_of(snapshot.chunk(rejected.move.chunk).at);
    if (index(rejected.move.to) < snapshot.places().size())
      decision.to = roster_.location_of(rejected.move.to);
    decide(std::move(decision));
  }
  for (const AcceptedMove& move : outcome.accepted) {
    Decision decision = decision_of(DecisionKind::planned, move);
    decision.plan = plans_;
    decision.wish = plan.moves()[move.wish].reason;
    decision.value = move.value;
    decision.victim = move.victim;
    decision.predicted = MoveTimes{snapshot.costs().move_time(move.from, move.to, move.bytes),
                                   snapshot.costs().stall_time(move.from, move.to, move.bytes)};
    waiting_.at(move.number).decision = decide(std::move(decision));
  }
}

/// All of them, or none: what the planner has accepted and nobody starts would never move again.
void Scheduler::keep_waiting(const std::vector<AcceptedMove>& accepted, bool awaited) {
  std::map<MoveNumber, Waiting> kept;
  try {
    for (const AcceptedMove& move : accepted) kept.emplace(move.number, Waiting{move, awaited, 0});
  } catch (...) {
    planner_.take_back(accepted);
    throw;
  }
  waiting_.merge(kept);
  // From here on, or policies wish for it again and make room for it twice.
  for (const AcceptedMove& move : accepted) tables_->row(move.chunk).moving = true;
}

Decision Scheduler::decision_of(DecisionKind kind, const AcceptedMove& move) const {
  Decision decision = decision_of(kind, move.chunk);
  decision.from = roster_.location_of(move.from);
  decision.to = roster_.location_of(move.to);
  return decision;
}

/// Whether a move can be one migration with those of the group: the next slot of the same
/// allocation, between the same places, and the group is not as large as one may be.
bool Scheduler::joins(const Running& group, const Waiting& waiting) const {
  const AcceptedMove& move = waiting.move;
  const ChunkRow& row = Snapshot(*tables_).chunk(move.chunk);
  const ChunkRoster::Entry* entry = roster_.of(row);
  return entry != nullptr && entry->begin == group.begin && move.from == group.from &&
         move.to == group.to && row.slot == group.slots.back() + 1 &&
         move.keep_copy == group.moves.back().keep_copy && waiting.goes_last() == group.goes_last &&
         group.moves.size() < group_chunks_max &&
         (group.moves.size() + 1) * move.bytes <= group_bytes_max;
}

/// In the order in which they go: what makes room for policies' moves last, and of equals by
/// number. That is the order of a plan: victims as the moves need them, moves by value.
std::vector<MoveNumber> Scheduler::ready() const {
  std::vector<MoveNumber> first, last;
  for (const auto& [number, waiting] : waiting_) {
    if (planner_.may_start(number, Snapshot(*tables_)))
      (waiting.goes_last() ? last : first).push_back(number);
  }
  first.insert(first.end(), last.begin(), last.end());
  return first;
}

/// Of the victims of one place, one group is with the mover at a time: the moves that it makes room
/// for have started when the next one does. `take_ended` sees a group when all of it has moved,
/// and groups are small.
void Scheduler::start_ready() {
  if (limits_.dry_run) {
    while (!waiting_.empty()) give_up(waiting_.begin()->first, "dry run");
  }
  if (paused_ || waiting_.empty()) return;
  std::vector<Running> groups;
  std::exception_ptr failure;
  const auto attempt = [&](auto&& step) {
    try {
      step();
    } catch (const std::exception&) {
      if (!failure) failure = std::current_exception();
    }
  };
  attempt([&]() VMART_NO_THREAD_ANALYSIS { gather_ready(groups); });
  // The planner has noted these as started: whatever fails, each is kept until it has ended.
  for (Running& group : groups) {
    if (group.moves.empty()) continue;
    attempt([&]() VMART_NO_THREAD_ANALYSIS { submit(std::move(group)); });
  }
  if (failure) std::rethrow_exception(failure);
  take_ended();  // Those that the mover refused.
}

/// Throws: std::bad_alloc; all that was noted as started is in a group then, for which `running_`
/// has room.
void Scheduler::gather_ready(std::vector<Running>& groups) {
  std::set<PlaceId> being_left;
  for (const Running& group : running_) {
    if (group.goes_last) being_left.insert(group.from);
  }
  for (const MoveNumber number : ready()) {
    // Asked again: those before it may have taken the room.
    if (!planner_.may_start(number, Snapshot(*tables_))) continue;
    Waiting& waiting = waiting_.at(number);
    AcceptedMove& move = waiting.move;
    const ChunkRow& row = Snapshot(*tables_).chunk(move.chunk);
    const ChunkRoster::Entry* entry = roster_.of(row);
    if (entry == nullptr) {
      give_up(number, "its allocation was freed");
      continue;
    }
    if (groups.empty() || !joins(groups.back(), waiting)) {
      if (waiting.goes_last() && !being_left.insert(move.from).second) continue;
      running_.reserve(running_.size() + groups.size() + 1);
      Running group;
      group.allocation = entry->allocation;
      group.begin = entry->begin;
      group.from = move.from;
      group.to = move.to;
      group.goes_last = waiting.goes_last();
      group.slots.reserve(group_chunks_max);
      group.moves.reserve(group_chunks_max);
      group.decisions.reserve(group_chunks_max);
      groups.push_back(std::move(group));
    }
    // Nothing below allocates.
    tables_->expect(move.to, move.bytes);
    planner_.note_started(number);
    groups.back().slots.push_back(row.slot);
    groups.back().moves.push_back(std::move(move));
    groups.back().decisions.push_back(waiting.decision);
    waiting_.erase(number);
  }
}

/// Requires: `running_` has room for it. Whatever it throws, the group is there.
void Scheduler::submit(Running group) {
  group.started = clock_.now();
  ask_mover(group);
  running_.push_back(std::move(group));
  const Running& kept = running_.back();
  if (!kept.task) return;
  stats_.moves_started += kept.moves.size();
  for (const AcceptedMove& move : kept.moves) decide(decision_of(DecisionKind::started, move));
}

/// Gives it a task, or says why it has none.
void Scheduler::ask_mover(Running& group) noexcept {
  try {
    const std::shared_ptr<Allocation> allocation = group.allocation.lock();
    if (!allocation || allocation->being_freed) {
      group.refused = "it is being freed";
    } else if (group.refused = allocation->why_pinned(); group.refused.empty()) {
      if (!ground_.mover.attached().any(group.begin)) {
        group.refused = "no attached stream may use it";
        return;
      }
      MigrateOptions options;
      options.scope = StopScope::attached;
      options.priority = group.goes_last ? victim_priority : wanted_priority;
      MoveTerms terms;
      terms.asks_for_room = false;  // The planner has seen to it.
      terms.keeps_copy = group.moves.front().keep_copy;
      terms.by_policy = true;
      terms.choice = PlaceChoice::runtime;
      group.task = ground_.mover.submit(allocation,
                                        {group.slots.front(), group.slots.back() + std::size_t{1}},
                                        roster_.location_of(group.to), options, terms);
      // Where nobody wakes the scheduler, the next drain sees that it has ended.
      group.task->on_done([inbox = inbox_] { inbox->wake(); });
    }
  } catch (const std::exception& error) {
    try {
      if (!group.task) group.refused = error.what();
    } catch (const std::exception&) {  // Refused without a reason.
    }
  }
}

// --- From moves to what is so

void Scheduler::take_ended() {
  for (std::size_t i = 0; i < running_.size();) {
    if (running_[i].task && !running_[i].task->done()) {
      ++i;
      continue;
    }
    end(running_[i]);  // If it throws, it goes on where it was, the next time.
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

/// The mover did not take it.
void Scheduler::end_refused(Running& group) {
  for (; group.ended < group.moves.size(); ++group.ended) {
    Decision decision = decision_of(DecisionKind::not_moved, group.moves[group.ended]);
    decision.reason = group.refused;
    decide(std::move(decision));
    end_move(group, group.ended, false, {});
  }
}

void Scheduler::end(Running& group) {
  if (!group.task) return end_refused(group);
  const MigrationReport report = group.task->report();
  const std::shared_ptr<Allocation> allocation = group.allocation.lock();
  std::string why = "it was cancelled";
  try {
    if (const std::exception_ptr error = group.task->error()) std::rethrow_exception(error);
    if (report.outcome == Outcome::done) why = "it had moved elsewhere by then";
  } catch (const std::exception& error) {
    why = error.what();
  }
  const Location to = roster_.location_of(group.to);
  for (; group.ended < group.moves.size(); ++group.ended) {
    const std::size_t i = group.ended;
    const bool moved =
        allocation && !allocation->being_freed && allocation->home(group.slots[i]) == to;
    const AcceptedMove& move = group.moves[i];
    Decision decision = decision_of(moved ? DecisionKind::moved : DecisionKind::not_moved, move);
    decision.began = group.started;
    decision.ended = clock_.now();
    const auto chunks = static_cast<int>(group.moves.size());
    decision.happened = MoveTimes{move_time(report) / chunks, report.stall.max};
    if (!moved) decision.reason = why;
    decide(std::move(decision));
    end_move(group, i, moved, report);
    ++(moved ? stats_.moves_done : stats_.moves_failed);
  }
  // Only what is uncorrected teaches, only moves by themselves, and only those that copied.
  if (report.bytes_remapped == 0) {
    predictions_.add_move(costs_, group.from, group.to, report);
    tables_->costs() = predictions_.corrected(costs_);
  }
  move_ended_.notify_all();
}

void Scheduler::end_move(const Running& group, std::size_t which, bool moved,
                         const MigrationReport& report) {
  const AcceptedMove& move = group.moves[which];
  ChunkRow& row = tables_->row(move.chunk);
  if (notices_.size() == notices_.capacity()) notices_.reserve(2 * notices_.size() + 8);
  if (moved) tables_->touch(move.chunk);  // Then `moved` below wants no memory.
  // The last that may throw: the books change together.
  const std::vector<MoveNumber> fallen = planner_.note_ended(move.number, moved, tables_->now());
  tables_->expect_no_more(move.to, move.bytes);
  if (moved) tables_->moved(move.chunk, move.to);
  for (const MoveNumber dropped : fallen) forget_waiting(dropped);
  row.moving = planner_.is_moving(move.chunk);  // A second leg may come yet.
  row.recent_moves = planner_.recent_moves(move.chunk, tables_->now());
  MoveResult result{move.chunk, move.from, move.to, moved, {}, report.stall.max};
  result.took = move_time(report) / static_cast<int>(group.moves.size());
  notices_.emplace_back(result);
  if (ground_.recording != nullptr) {
    RecordedMove record;
    record.start = group.started;
    record.end = clock_.now();
    record.stall = report.stall.max;
    record.allocation = row.allocation;
    record.bytes = move.bytes;
    record.decision = group.decisions[which];
    record.slot = row.slot;
    record.from = move.from;
    record.to = move.to;
    record.moved = moved;
    try {
      ground_.recording->add(record);
    } catch (const std::bad_alloc&) {  // The recording lacks it; the books do not.
    }
  }
}

/// A move that was accepted and is not made.
void Scheduler::give_up(MoveNumber number, const std::string& why) {
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return;
  const AcceptedMove& move = found->second.move;
  Decision decision = decision_of(DecisionKind::not_moved, move);
  decision.reason = why;
  decide(std::move(decision));
  for (const MoveNumber dropped : planner_.note_ended(number, false, tables_->now())) {
    forget_waiting(dropped);
  }
  forget_waiting(number);
}

/// Requires: the planner has forgotten it.
void Scheduler::forget_waiting(MoveNumber number) {
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return;
  const ChunkId chunk = found->second.move.chunk;
  waiting_.erase(found);
  tables_->row(chunk).moving = planner_.is_moving(chunk);
}

}  // namespace vma
