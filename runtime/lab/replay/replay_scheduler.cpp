#include "lab/replay/replay_scheduler.hpp"

#include "placement/policies/built_in_policies.hpp"

#include <exception>
#include <new>
#include <string_view>
#include <utility>

namespace vma {

ReplayScheduler::ReplayScheduler(std::vector<PlaceState> places, MachineCosts costs,
                                 const ReplaySchedulerLimits& limits,
                                 std::unique_ptr<Policy> policy)
    : path_(std::move(places), std::move(costs), limits.planner, limits.heat, limits.pace),
      policy_(std::move(policy)),
      wants_uses_(!ignores_uses(*policy_)),
      failures_(limits.failures),
      ends_it_(limits.ends_it),
      arriving_(snapshot().places().size()) {}

std::vector<std::uint64_t> ReplayScheduler::resident_bytes() const {
  std::vector<std::uint64_t> bytes;
  for (const PlaceState& place : snapshot().places())
    bytes.push_back(place.used_bytes - arriving_[bytes.size()]);
  return bytes;
}

/// Fading the averages costs more than most time steps, so the books are updated only when used.
void ReplayScheduler::catch_up() {
  if (std::exchange(behind_, false)) path_.books().set_now(now_);
}

ChunkTables& ReplayScheduler::tables() {
  catch_up();
  return path_.books();
}

/// Returns false if the policy threw; its plan is lost.
template <typename Call>
bool ReplayScheduler::ask(PolicyEntry entry, const Call& call, Plan& plan) {
  catch_up();
  try {
    path_.ask(*policy_, plan, call);
  } catch (const std::bad_alloc&) {  // Its state may be incomplete, so no later answer counts.
    throw;
  } catch (const std::exception& error) {
    if (ends_it_ && ends_it_(error)) throw;
    plan = Plan();
    ++counters_.policy_failures;
    if (failures_.failed(entry, now_) != PolicyFailures::Replacement::none) {
      policy_ = make_policy("stay_put");
      failures_.forget();
    }
    return false;
  }
  failures_.succeeded(entry);
  return true;
}

std::vector<PlaceId> ReplayScheduler::place(const AllocRequest& request,
                                            std::span<const std::uint64_t> chunks) {
  catch_up();
  std::vector<PlaceId> otherwise =
      path_.first_places(request.device, chunks, [](PlaceId) { return true; });
  std::vector<PlaceId> chosen = otherwise;
  Plan ignored;
  const auto call = [&](Policy& policy, const Snapshot& view, Plan&) {
    policy.on_alloc(request, view, chosen);
  };
  if (!ask(PolicyEntry::alloc, call, ignored)) return otherwise;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    if (index(chosen[i]) >= costs().places()) chosen[i] = otherwise[i];
  return chosen;
}

void ReplayScheduler::remove(ChunkId first, std::size_t chunks) {
  catch_up();
  const auto gone = [&](const auto& report) {
    return index(report.chunk) >= index(first) && index(report.chunk) < index(first) + chunks;
  };
  std::erase_if(reports_.uses, gone);
  std::erase_if(hints_, gone);
  counters_.moves_dropped += path_.drop_moves(first, chunks);
  path_.gone(first, chunks);
}

void ReplayScheduler::collect() {
  ++counters_.collections;
  catch_up();
  path_.fold_uses(reports_.uses);
  for (const Queued& hint : hints_)
    path_.take_hint(hint.chunk, hint.device, hint.hint, hint.given, reports_);
  hints_.clear();
  Plan plan;
  const auto call = [&](Policy& policy, const Snapshot& view, Plan& proposals) {
    reports_.tell(policy, view, proposals);
  };
  const bool decided = ask(PolicyEntry::use, call, plan);
  reports_.clear();
  if (decided) carry_out(plan);
}

void ReplayScheduler::watch_pace(std::uint64_t progress) {
  catch_up();
  path_.note_progress(progress);
  if (const std::optional<PaceVerdict> verdict = path_.take_pace_news())
    counters_.pace_stops += verdict->pays ? 0 : 1;
  for (const MoveNumber number : path_.not_paying()) path_.give_up(number);
}

void ReplayScheduler::tick() {
  ++counters_.ticks;
  Plan plan;
  const auto call = [](Policy& policy, const Snapshot& view, Plan& proposals) {
    policy.on_tick(view, proposals);
  };
  if (ask(PolicyEntry::tick, call, plan)) carry_out(plan);
  path_.books().clear_changed();
  for (const StallAhead::Outcome& outcome : path_.judge_ahead())
    counters_.advances_lost += outcome.paid ? 0 : 1;
}

void ReplayScheduler::press(const Pressure& pressure) {
  wants_uses_ = true;
  Plan plan;
  const auto call = [&](Policy& policy, const Snapshot& view, Plan& proposals) {
    policy.on_pressure(pressure, view, proposals);
  };
  ask(PolicyEntry::pressure, call, plan);
  path_.complete_pressure(pressure, plan);
  carry_out(plan, true);
}

/// `awaited`: the trace waits for the room that the plan makes.
void ReplayScheduler::carry_out(const Plan& plan, bool awaited) {
  if (plan.empty()) return;
  counters_.moves_wanted += plan.moves().size();
  const PlanOutcome outcome = path_.accept(plan, awaited);
  for (const RefusedMove& refused : outcome.refused)
    ++counters_.moves_refused[std::string(to_string(refused.reason))];
  counters_.moves_accepted += outcome.accepted.size();
  counters_.advances += outcome.ahead ? 1 : 0;
}

std::vector<AcceptedMove> ReplayScheduler::take_ready() {
  std::vector<AcceptedMove> started;
  if (!path_.has_waiting()) return started;
  std::vector<PlannedMigration> groups;
  path_.take(path_.ready(), groups);
  for (PlannedMigration& group : groups) {
    for (AcceptedMove& move : group.moves) {
      arriving_[index(move.to)] += move.bytes;
      started.push_back(std::move(move));
    }
  }
  return started;
}

void ReplayScheduler::end(const AcceptedMove& move, bool moved, Time took, Time stall) {
  catch_up();
  arriving_[index(move.to)] -= move.bytes;
  counters_.moves_dropped += path_.end(move, moved, took, stall);
}

}  // namespace vma
