#include "lab/replay/replay_scheduler.hpp"

#include "placement/planning/group_limits.hpp"
#include "placement/policies/built_in_policies.hpp"

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

namespace vma {
namespace {

constexpr std::size_t ahead = 8;  // Uses that the processor is told of in advance.

}  // namespace

ReplayScheduler::ReplayScheduler(std::vector<PlaceState> places, MachineCosts costs,
                                 const ReplaySchedulerLimits& limits,
                                 std::unique_ptr<Policy> policy)
    : tables_(std::move(places), std::move(costs), limits.heat),
      planner_(limits.planner),
      policy_failures_max_(limits.policy_failures_max),
      policy_(std::move(policy)),
      arriving_(snapshot().places().size()) {}

std::vector<std::uint64_t> ReplayScheduler::resident_bytes() const {
  std::vector<std::uint64_t> bytes;
  for (const PlaceState& place : snapshot().places())
    bytes.push_back(place.used_bytes - arriving_[bytes.size()]);
  return bytes;
}

/// Fading takes longer than what most steps of time do, so only those steps fade that look.
void ReplayScheduler::catch_up() {
  if (std::exchange(behind_, false)) tables_.set_now(now_);
}

ChunkTables& ReplayScheduler::tables() {
  catch_up();
  return tables_;
}

/// False if the policy threw: what it planned is not to be had.
template <typename Call>
bool ReplayScheduler::ask(Call&& call) {
  catch_up();
  const std::vector<Notice> notices = std::exchange(notices_, {});
  try {
    for (const Notice& notice : notices) {
      if (const auto* gone = std::get_if<ChunkId>(&notice)) policy_->on_gone(*gone);
      if (const auto* result = std::get_if<MoveResult>(&notice))
        policy_->on_result(*result, snapshot());
    }
    call(*policy_, snapshot());
    failures_in_a_row_ = 0;
    return true;
  } catch (const std::exception&) {
    ++counters_.policy_failures;
    if (++failures_in_a_row_ >= policy_failures_max_) policy_ = make_policy("stay_put");
    return false;
  }
}

std::vector<PlaceId> ReplayScheduler::place(const AllocRequest& request,
                                            std::span<const std::uint64_t> chunks) {
  std::vector<std::uint64_t> free_bytes;
  for (const PlaceState& place : snapshot().places()) free_bytes.push_back(place.free_bytes());
  std::vector<PlaceId> otherwise;
  for (const std::uint64_t bytes : chunks) {
    PlaceId best = request.device;  // Where nothing has room: the pressure there finds some.
    for (const PlaceId at : costs().by_speed(request.device)) {
      if (free_bytes[index(at)] < bytes) continue;
      best = at;
      free_bytes[index(at)] -= bytes;
      break;
    }
    otherwise.push_back(best);
  }
  std::vector<PlaceId> chosen = otherwise;
  const bool decided =
      ask([&](Policy& policy, const Snapshot& view) { policy.on_alloc(request, view, chosen); });
  if (!decided) return otherwise;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    if (index(chosen[i]) >= costs().places()) chosen[i] = otherwise[i];
  return chosen;
}

void ReplayScheduler::remove(ChunkId first, std::size_t chunks) {
  catch_up();
  for (std::size_t i = 0; i < chunks; ++i) {
    const ChunkId chunk{static_cast<std::uint32_t>(index(first) + i)};
    for (const MoveNumber number : planner_.note_gone(chunk)) forget_waiting(number);
    notices_.emplace_back(chunk);
  }
  std::erase_if(uses_, [&](const UseEvent& use) {
    return index(use.chunk) >= index(first) && index(use.chunk) < index(first) + chunks;
  });
  tables_.remove(first, chunks);
}

void ReplayScheduler::drain() {
  ++counters_.drains;
  catch_up();
  static_assert(sizeof(PlaceId) == 1 && sizeof(ChunkId) == 4, "both fit into one number");
  const auto key = [](const UseEvent& use) { return index(use.chunk) << 8 | index(use.device); };
  std::ranges::stable_sort(uses_, {}, key);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    if (kept > 0 && key(uses_[kept - 1]) == key(uses_[i])) {
      uses_[kept - 1].bytes_read += uses_[i].bytes_read;
      uses_[kept - 1].bytes_written += uses_[i].bytes_written;
    } else {
      uses_[kept++] = uses_[i];
    }
  }
  uses_.resize(kept);
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    // Each is a few cache misses of its own: they are asked for ahead, rows first, which say more.
    if (i + 2 * ahead < uses_.size()) __builtin_prefetch(&tables_.row(uses_[i + 2 * ahead].chunk));
    if (i + ahead < uses_.size()) tables_.prepare(uses_[i + ahead].chunk);
    const UseEvent& use = uses_[i];
    tables_.used(use.chunk, use.device, use.bytes_read, use.bytes_written);
  }
  Plan plan;
  const bool decided = ask([&](Policy& policy, const Snapshot& view) {
    for (const UseEvent& use : uses_) policy.on_use(use, view, plan);
  });
  uses_.clear();
  if (decided) carry_out(plan);
}

void ReplayScheduler::tick() {
  ++counters_.ticks;
  Plan plan;
  if (ask([&](Policy& policy, const Snapshot& view) { policy.on_tick(view, plan); }))
    carry_out(plan);
  tables_.clear_changed();
}

void ReplayScheduler::press(const Pressure& pressure) {
  Plan plan;
  if (!ask([&](Policy& policy, const Snapshot& view) { policy.on_pressure(pressure, view, plan); }))
    plan.clear();
  planner_.complete_pressure(pressure, snapshot(), plan);
  carry_out(plan, true);
}

/// `awaited`: the trace waits for the room that the plan makes.
void ReplayScheduler::carry_out(const Plan& plan, bool awaited) {
  if (plan.empty()) return;
  counters_.moves_wanted += plan.moves().size();
  PlanOutcome outcome = planner_.plan(plan, snapshot());
  for (const RejectedMove& rejected : outcome.rejected)
    ++counters_.moves_refused[std::string(to_string(rejected.reason))];
  counters_.moves_accepted += outcome.accepted.size();
  for (const AcceptedMove& move : outcome.accepted) {
    waiting_.emplace(move.number, Waiting{move, awaited});
    // From here on, or policies wish for it again and make room for it twice.
    tables_.row(move.chunk).moving = true;
  }
}

/// What makes room for policies' moves last, and of equals by number, which is the plan's order.
std::vector<MoveNumber> ReplayScheduler::ready() const {
  std::vector<MoveNumber> first, last;
  for (const auto& [number, waiting] : waiting_) {
    if (planner_.may_start(number, snapshot()))
      (waiting.goes_last() ? last : first).push_back(number);
  }
  first.insert(first.end(), last.begin(), last.end());
  return first;
}

/// Whether a victim would be one migration with the last `group` that have started, in the runtime.
bool ReplayScheduler::joins(std::span<const AcceptedMove> group, const AcceptedMove& move) const {
  if (group.empty() || group.size() >= group_chunks_max) return false;
  const AcceptedMove& last = group.back();
  const ChunkRow& before = snapshot().chunk(last.chunk);
  const ChunkRow& row = snapshot().chunk(move.chunk);
  return row.allocation == before.allocation && row.slot == before.slot + 1 &&
         move.from == last.from && move.to == last.to && move.keep_copy == last.keep_copy &&
         (group.size() + 1) * move.bytes <= group_bytes_max;
}

std::vector<AcceptedMove> ReplayScheduler::take_ready() {
  std::vector<AcceptedMove> started;
  std::size_t group = 0;  // The last victims that started, which leave together.
  for (const MoveNumber number : ready()) {
    // Asked again: those before it may have taken the room.
    if (!planner_.may_start(number, snapshot())) continue;
    const Waiting& waiting = waiting_.at(number);
    if (waiting.goes_last()) {
      std::set<MoveNumber>& leaving = leaving_[waiting.move.from];
      if (!joins(std::span(started).last(group), waiting.move)) {
        if (!leaving.empty()) continue;
        group = 0;
      }
      ++group;
      leaving.insert(number);
    }
    started.push_back(waiting.move);
    waiting_.erase(number);
    tables_.expect(started.back().to, started.back().bytes);
    arriving_[index(started.back().to)] += started.back().bytes;
    planner_.note_started(number);
  }
  return started;
}

void ReplayScheduler::end(const AcceptedMove& move, bool moved, Time took, Time stall) {
  catch_up();
  ChunkRow& row = tables_.row(move.chunk);
  tables_.expect_no_more(move.to, move.bytes);
  arriving_[index(move.to)] -= move.bytes;
  if (moved) tables_.moved(move.chunk, move.to);
  leaving_[move.from].erase(move.number);
  const Time now = snapshot().now();
  for (const MoveNumber dropped : planner_.note_ended(move.number, moved, now))
    forget_waiting(dropped);
  row.moving = planner_.is_moving(move.chunk);  // A second leg may come yet.
  row.recent_moves = planner_.recent_moves(move.chunk, now);
  notices_.emplace_back(MoveResult{move.chunk, move.from, move.to, moved, took, stall});
}

/// Requires: the planner has forgotten it.
void ReplayScheduler::forget_waiting(MoveNumber number) {
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return;
  const ChunkId chunk = found->second.move.chunk;
  waiting_.erase(found);
  ++counters_.moves_dropped;
  tables_.row(chunk).moving = planner_.is_moving(chunk);
}

}  // namespace vma
