#include "scheduling/scheduled_moves.hpp"

#include "base/log.hpp"
#include "costs/move_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

namespace vma {
namespace {

/// Requests of programs go first; then the moves that policies want, then those that make room for
/// them.
constexpr int wanted_priority = -1, victim_priority = -2;
static_assert(victim_priority < wanted_priority && wanted_priority < 0);

}  // namespace

ScheduledMoves::ScheduledMoves(Migrator& migrator, const Clock& clock, const ChunkRoster& roster,
                               DecisionPath& path, DecisionJournal& journal,
                               std::shared_ptr<SchedulerInbox> inbox, MachineCosts costs)
    : migrator_(migrator),
      clock_(clock),
      roster_(roster),
      path_(path),
      journal_(journal),
      inbox_(std::move(inbox)),
      costs_(std::move(costs)) {}

bool ScheduledMoves::any_of(Address begin) const noexcept {
  return std::ranges::any_of(running_, [&](const Running& group) { return group.begin == begin; });
}

void ScheduledMoves::accept(const Plan& plan, bool awaited) {
  if (plan.empty()) return;
  wanted_ += plan.moves().size();
  const Snapshot snapshot = path_.snapshot();
  const PlanOutcome outcome = path_.accept(plan, awaited);
  allow_ahead();
  if (outcome.ahead) note_ahead(*outcome.ahead, path_.planner().stall_left());
  for (const RefusedMove& rejected : outcome.refused) {
    ++refused_[std::string(to_string(rejected.reason))];
    Decision decision = journal_.about(DecisionKind::refused, rejected.move.chunk);
    decision.plan = journal_.plan();
    decision.why = rejected.move.reason;
    decision.reason = fmt::format("{}: {}", to_string(rejected.reason), rejected.detail);
    decision.value = rejected.move.value;
    decision.victim = rejected.move.victim;
    if (index(rejected.move.chunk) < snapshot.chunks().size())
      decision.from = roster_.place_at(snapshot.chunk(rejected.move.chunk).at);
    if (index(rejected.move.to) < snapshot.places().size())
      decision.to = roster_.place_at(rejected.move.to);
    journal_.add(std::move(decision));
  }
  for (const AcceptedMove& move : outcome.accepted) {
    Decision decision = journal_.about(DecisionKind::planned, move);
    decision.plan = journal_.plan();
    decision.why = plan.moves()[move.proposal].reason;
    decision.value = move.value;
    decision.victim = move.victim;
    decision.predicted = MoveTimes{snapshot.costs().move_time(move.from, move.to, move.bytes),
                                   snapshot.costs().stall_time(move.from, move.to, move.bytes)};
    path_.note_decision(move.number, journal_.add(std::move(decision)));
  }
}

/// `left`: of the budget of stalls, in seconds, after these moves.
void ScheduledMoves::note_ahead(const StallAdvance& ahead, double left) {
  Decision decision;
  decision.kind = DecisionKind::ahead;
  decision.plan = journal_.plan();
  decision.value = ahead.gain;
  decision.reason = fmt::format(
      "{} moves stop programs for {:.1f} ms, {:.1f} ms more than the stall budget has; "
      "they are predicted to save {:.1f} ms; up to {:.1f} ms may be spent ahead",
      ahead.moves, 1e3 * ahead.stall, -1e3 * left, 1e3 * ahead.gain, 1e3 * ahead.credit);
  journal_.add(std::move(decision));
}

/// The migrator's budget counts how long streams really stand.
void ScheduledMoves::allow_ahead() {
  const Time credit = path_.stall_credit();
  if (credit == allowed_ahead_) return;
  migrator_.allow_ahead(credit);
  allowed_ahead_ = credit;
}

void ScheduledMoves::judge_ahead() {
  for (const StallAhead::Outcome& outcome : path_.judge_ahead()) {
    journal_.add(DecisionKind::ahead_judged,
                 fmt::format("moves that spent the stall budget of later saved {:.1f} ms of the "
                             "{:.1f} ms that their stops cost: {}; up to {:.1f} ms may be spent "
                             "ahead from now on",
                             1e3 * outcome.saved, 1e3 * outcome.owed,
                             outcome.paid ? "it paid" : "it did not pay", 1e3 * outcome.credit));
  }
  allow_ahead();
}

void ScheduledMoves::watch_pace(std::uint64_t progress) {
  path_.note_progress(progress);
  if (const std::optional<PaceVerdict> verdict = path_.take_pace_news()) {
    const std::string text = to_string(*verdict);
    if (!verdict->pays) log(LogLevel::info, "policy {}: {}", journal_.policy(), text);
    journal_.add(DecisionKind::pace_judged, text);
  }
  for (const MoveNumber number : path_.not_paying()) give_up(number, path_.why_held());
}

/// Whose last hooks may still run, and whose memory may not have been given up yet.
bool ScheduledMoves::any_from(PlaceId at) const noexcept {
  return std::ranges::any_of(running_, [&](const Running& group) { return group.from == at; });
}

/// `take_ended` handles a group once all of it has moved, and groups are small.
void ScheduledMoves::start_ready() {
  std::vector<PlannedMigration> groups;
  std::exception_ptr failure;
  const auto attempt = [&](auto&& step) {
    try {
      step();
    } catch (const std::exception&) {
      if (!failure) failure = std::current_exception();
    }
  };
  attempt([&] {
    const std::vector<MoveNumber> ready = path_.ready();
    running_.reserve(running_.size() + ready.size());
    path_.take(ready, groups);
  });
  // These have begun: whatever fails, each is kept until it has ended.
  const std::size_t first = running_.size();
  for (PlannedMigration& group : groups) running_.push_back(Running(std::move(group)));
  const std::span<Running> begun = std::span(running_).subspan(first);
  for (Running& group : begun) attempt([&] { look_up(group); });
  submit(begun);
  for (const Running& group : begun) attempt([&] { note_start(group); });
  if (failure) std::rethrow_exception(failure);
}

void ScheduledMoves::look_up(Running& group) {
  group.started = clock_.now();
  const ChunkRow& row = path_.snapshot().chunk(group.moves.front().chunk);
  group.first_slot = row.slot;
  if (const ChunkRoster::Entry* entry = roster_.of(row)) {
    group.allocation = entry->allocation;
    group.begin = entry->begin;
  }
}

void ScheduledMoves::note_start(const Running& group) {
  if (!group.task) return;
  started_ += group.moves.size();
  for (const AcceptedMove& move : group.moves) {
    journal_.add(journal_.about(DecisionKind::started, move));
  }
}

/// Gives each a task, or records why it has none. All are submitted at once, so that the worker
/// that takes the first finds those that may share its gates.
void ScheduledMoves::submit(std::span<Running> groups) noexcept {
  const auto refusing = [](Running& group, auto&& step) noexcept {
    try {
      step();
    } catch (const std::exception& error) {
      try {
        if (!group.task) group.refused = error.what();
      } catch (const std::exception&) {  // Refused without a reason.
      }
    }
  };
  std::vector<NewMigration> migrations;
  std::vector<Running*> asked;
  for (Running& group : groups) {
    refusing(group, [&] {
      asked.reserve(groups.size());
      if (std::optional<NewMigration> wanted = migration_of(group)) {
        migrations.push_back(std::move(*wanted));
        asked.push_back(&group);
      }
    });
  }
  try {
    const auto tasks = migrator_.submit_all(std::move(migrations));
    for (std::size_t which = 0; which < asked.size(); ++which) asked[which]->task = tasks[which];
  } catch (const std::exception&) {
    const std::exception_ptr error = std::current_exception();
    for (Running* const group : asked) refusing(*group, [&] { std::rethrow_exception(error); });
    return;
  }
  for (Running* const group : asked) {
    // Without a waker, the next look sees that it has ended.
    refusing(*group, [&] { group->task->on_done([inbox = inbox_] { inbox->wake(); }); });
  }
}

/// None if it may not move; then the group has the reason.
std::optional<NewMigration> ScheduledMoves::migration_of(Running& group) const {
  std::shared_ptr<Allocation> allocation = group.allocation.lock();
  if (!allocation || allocation->being_freed) {
    group.refused = "it is being freed";
    return std::nullopt;
  }
  group.refused = allocation->why_pinned();
  if (group.refused.empty() && !migrator_.may_stop_for(group.begin)) {
    group.refused = Migrator::why_no_stop;
  }
  if (!group.refused.empty()) return std::nullopt;
  NewMigration wanted;
  wanted.what = {std::move(allocation),
                 {group.first_slot, group.first_slot + group.moves.size()},
                 roster_.place_at(group.to)};
  wanted.options.scope = StopScope::attached;
  wanted.options.priority = group.goes_last() ? victim_priority : wanted_priority;
  wanted.terms.asks_for_room = false;  // The planner has ensured room.
  wanted.terms.keeps_copy = group.moves.front().keep_copy;
  wanted.terms.by_policy = true;
  wanted.terms.choice = PlaceChoice::runtime;
  return wanted;
}

bool ScheduledMoves::take_ended() {
  bool any = false;
  for (std::size_t i = 0; i < running_.size();) {
    if (running_[i].task && !running_[i].task->done()) {
      ++i;
      continue;
    }
    end(running_[i]);  // If it throws, the next call resumes there.
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    any = true;
  }
  return any;
}

/// The migrator refused it.
void ScheduledMoves::end_refused(Running& group) {
  for (; group.ended < group.moves.size(); ++group.ended) {
    Decision decision = journal_.about(DecisionKind::not_moved, group.moves[group.ended]);
    decision.reason = group.refused;
    journal_.add(std::move(decision));
    end_move(group, group.ended, false, {});
  }
}

void ScheduledMoves::end(Running& group) {
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
  const Place to = roster_.place_at(group.to);
  for (; group.ended < group.moves.size(); ++group.ended) {
    const std::size_t i = group.ended;
    const bool moved =
        allocation && !allocation->being_freed && allocation->place(group.first_slot + i) == to;
    const AcceptedMove& move = group.moves[i];
    Decision decision = journal_.about(moved ? DecisionKind::moved : DecisionKind::not_moved, move);
    decision.began = group.started;
    decision.ended = clock_.now();
    const auto chunks = static_cast<int>(group.moves.size());
    decision.happened = MoveTimes{move_time(report) / chunks, report.stall.max};
    if (!moved) {
      decision.reason = why;
    } else if (report.stop != StopKind::none) {
      decision.reason = fmt::format("by {}", to_string(report.stop));
    }
    journal_.add(std::move(decision));
    end_move(group, i, moved, report);
    ++(moved ? done_ : failed_);
  }
  // Only uncorrected predictions of single moves that copied are used for learning.
  if (report.bytes_remapped == 0) {
    predictions_.add_move(costs_, group.from, group.to, report);
    path_.books().costs() = predictions_.corrected(costs_);
  }
}

void ScheduledMoves::end_move(const Running& group, std::size_t which, bool moved,
                              const MigrationReport& report) {
  const AcceptedMove& move = group.moves[which];
  path_.end(move, moved, move_time(report) / static_cast<int>(group.moves.size()),
            report.stall.max);
  RecordedMove record;
  record.start = group.started;
  record.end = clock_.now();
  record.stall = report.stall.max;
  record.bytes = move.bytes;
  record.decision = group.decisions[which];
  record.from = move.from;
  record.to = move.to;
  record.moved = moved;
  journal_.record_move(record, move.chunk);
}

void ScheduledMoves::count_in(SchedulerStats& stats) const {
  stats.moves_wanted = wanted_;
  stats.moves_refused = refused_;
  stats.moves_started = started_;
  stats.moves_done = done_;
  stats.moves_failed = failed_;
  stats.moves_held = path_.why_held();
  stats.prediction_error = predictions_.total(Foretold::move).median_error;
}

void ScheduledMoves::give_up(MoveNumber number, const std::string& why) {
  const AcceptedMove* move = path_.find_waiting(number);
  if (move == nullptr) return;
  Decision decision = journal_.about(DecisionKind::not_moved, *move);
  decision.reason = why;
  journal_.add(std::move(decision));
  path_.give_up(number);
}

void ScheduledMoves::cancel_awaited_from(PlaceId at) {
  for (const Running& group : running_) {
    if (group.task && group.from == at && group.moves.front().victim && !group.goes_last())
      group.task->cancel();
  }
}

}  // namespace vma
