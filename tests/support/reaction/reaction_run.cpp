#include "support/reaction/reaction_run.hpp"

#include <algorithm>
#include <utility>

namespace vma {

ReactionRun::ReactionRun(ReactionOptions options, std::unique_ptr<Policy> policy)
    : options_(std::move(options)),
      path_(options_.places, options_.costs, options_.planner, options_.heat),
      policy_(std::move(policy)),
      program_(options_.load, options_.costs, [this](std::size_t chunk) { return home(chunk); }),
      migrator_(options_.costs, options_.gates, options_.stall_budget),
      phases_(1),
      phase_(options_.load.phase_at(Time::zero())),
      next_drain_(options_.drain),
      next_tick_(options_.tick) {
  std::vector<ChunkTables::NewChunk> chunks;
  for (const PlaceId at : options_.homes)
    chunks.insert(chunks.end(), options_.load.chunks_a_block, {options_.load.chunk_bytes, at});
  path_.books().add(1, "array", chunks);
}

PlaceId ReactionRun::home(std::size_t chunk) const {
  return path_.snapshot().chunk(ChunkId{static_cast<std::uint32_t>(chunk)}).at;
}

/// That of now; a new one if the load has changed.
ReactionPhase& ReactionRun::phase() {
  const std::size_t number = options_.load.phase_at(now_);
  if (std::exchange(phase_, number) != number) {
    phases_.emplace_back();
    phases_.back().begin = now_;
    gates_before_ = migrator_.gates();
    stopped_before_ = migrator_.stopped();
  }
  return phases_.back();
}

Time ReactionRun::next() const {
  Time next = std::min(next_drain_, next_tick_);
  if (!closed_) next = std::min(next, program_.next());
  if (closed_ || !stopping_) next = std::min(next, migrator_.next());
  return std::max(next, now_);
}

void ReactionRun::run_until(Time end) {
  while (true) {
    const Time next = this->next();
    if (next >= end) break;
    now_ = next;
    phase();
    if (program_.next() <= now_) program_.advance(now_, uses_);
    serve_gates();
    if (next_drain_ <= now_) drain();
    if (next_tick_ <= now_) tick();
  }
  now_ = end;
}

void ReactionRun::serve_gates() {
  if (closed_ && migrator_.open(now_)) {
    closed_ = stopping_ = false;
    end_moves();
    program_.resume(now_, uses_);
  }
  if (!stopping_ && migrator_.wants_gate(now_)) {
    stopping_ = true;
    program_.stop(now_);
  }
  if (stopping_ && !closed_ && program_.stands()) {
    closed_ = true;
    migrator_.close(program_.first_stood(), program_.last_stood());
  }
}

void ReactionRun::ask(DecisionPath::PolicyCall call) {
  const DecisionPath::Question question = path_.question(std::move(call));
  question.ask(*policy_);
  accept(*question.proposals);
  start_ready();
}

void ReactionRun::drain() {
  next_drain_ = now_ + options_.drain;
  path_.books().set_now(now_);
  start_ready();
  if (uses_.empty()) return;
  path_.fold_uses(uses_);
  ReactionPhase& its = phase();
  its.used = std::min(its.used, now_);
  const std::vector<UseEvent> uses = std::exchange(uses_, {});
  ask([&](Policy& policy, const Snapshot& snapshot, Plan& plan) {
    for (const UseEvent& use : uses) policy.on_use(use, snapshot, plan);
  });
}

void ReactionRun::tick() {
  next_tick_ = now_ + options_.tick;
  path_.books().set_now(now_);
  ask([](Policy& policy, const Snapshot& snapshot, Plan& plan) { policy.on_tick(snapshot, plan); });
  path_.books().clear_changed();
  for (const StallAhead::Outcome& outcome : path_.judge_ahead())
    (outcome.paid ? phase().advances_paid : phase().advances_lost) += 1;
}

void ReactionRun::accept(const Plan& plan) {
  if (plan.empty()) return;
  ReactionPhase& its = phase();
  its.proposed = std::min(its.proposed, now_);
  its.proposals += plan.moves().size();
  const PlanOutcome outcome = path_.accept(plan, false);
  for (const RefusedMove& move : outcome.refused)
    ++its.refused[std::string(to_string(move.reason))];
  its.advances += outcome.ahead ? 1 : 0;
  if (outcome.accepted.empty()) return;
  its.accepted = std::min(its.accepted, now_);
  its.accepted_last = now_;
}

void ReactionRun::start_ready() {
  if (options_.dry_run) {
    for (const MoveNumber number : path_.waiting()) path_.give_up(number);
  }
  migrator_.budget().allow_ahead(path_.stall_credit());
  if (!path_.has_waiting()) return;
  std::vector<PlannedMigration> groups;
  path_.take(path_.ready(), groups);
  ReactionPhase& its = phase();
  for (PlannedMigration& group : groups) {
    its.started = std::min(its.started, now_);
    its.moves += group.moves.size();
    moves_ += group.moves.size();
    ++its.groups;
    migrator_.submit(std::move(group), now_);
  }
}

/// The slots of a migration are switched at its gates; here all are when it ends, which only the
/// reads of a few milliseconds notice.
void ReactionRun::end_moves() {
  ReactionPhase& its = phase();
  path_.books().set_now(now_);
  for (const PlannedMigration& group : migrator_.take_ended()) {
    for (const AcceptedMove& move : group.moves) {
      path_.end(move, true, options_.costs.move_time(move.from, move.to, move.bytes),
                options_.costs.stall_time(move.from, move.to, move.bytes));
    }
    its.ended = now_;
  }
  its.gates = migrator_.gates() - gates_before_;
  its.stopped = migrator_.stopped() - stopped_before_;
}

double ReactionRun::rate(Time from, Time to) const {
  const auto& steps = program_.steps();
  const auto first = std::ranges::lower_bound(steps, from, {}, &LockstepProgram::Step::end);
  auto last = std::ranges::upper_bound(steps, to, {}, &LockstepProgram::Step::end);
  if (first == steps.end() || last == first || --last == first) return 0;
  return (last->bytes - first->bytes) /
         std::chrono::duration<double>(last->end - first->end).count();
}

std::optional<Time> ReactionRun::recovery(Time begin, Time end, double least, Time stretch) const {
  std::optional<Time> since;
  for (Time from = begin; from + stretch <= end; from += stretch) {
    if (rate(from, from + stretch) < least) {
      since.reset();
    } else if (!since) {
      since = from - begin;
    }
  }
  return since;
}

}  // namespace vma
