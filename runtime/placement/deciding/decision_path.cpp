#include "placement/deciding/decision_path.hpp"

#include "base/units.hpp"

#include <algorithm>
#include <utility>

namespace vma {
namespace {

/// How many accepted moves form one migration: while it runs, the mover does nothing else with the
/// allocation, and each chunk waits for the application's work to stop.
constexpr std::size_t group_chunks_max = 4;
constexpr std::uint64_t group_bytes_max = 256 * MiB;

constexpr std::size_t ahead = 8;  // How many uses ahead to prefetch.

ChunkId nth(ChunkId first, std::size_t chunk) {
  return ChunkId{static_cast<std::uint32_t>(index(first) + chunk)};
}

}  // namespace

DecisionPath::DecisionPath(std::vector<PlaceState> places, MachineCosts costs,
                           const PlannerLimits& planner, const HeatLimits& heat)
    : books_(std::make_shared<ChunkTables>(std::move(places), std::move(costs), heat)),
      planner_(planner),
      leaving_(snapshot().places().size()) {}

void DecisionPath::leave_books() {
  books_ = std::make_shared<ChunkTables>(*books_);
}

// --- What has happened

void DecisionPath::fold_uses(std::vector<UseEvent>& uses) {
  static_assert(sizeof(PlaceId) == 1 && sizeof(ChunkId) == 4, "both fit into one number");
  const auto key = [](const UseEvent& use) {
    return std::uint64_t{index(use.chunk)} << 8 | index(use.device);
  };
  std::ranges::stable_sort(uses, {}, key);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (kept > 0 && key(uses[kept - 1]) == key(uses[i])) {
      uses[kept - 1].bytes_read += uses[i].bytes_read;
      uses[kept - 1].bytes_written += uses[i].bytes_written;
    } else {
      uses[kept++] = uses[i];
    }
  }
  uses.resize(kept);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    // Each costs several cache misses, so they are prefetched, rows first, since cells depend on
    // them.
    if (i + 2 * ahead < uses.size()) __builtin_prefetch(&books_->row(uses[i + 2 * ahead].chunk));
    if (i + ahead < uses.size()) books_->prepare(uses[i + ahead].chunk);
    const UseEvent& use = uses[i];
    books_->used(use.chunk, use.device, use.bytes_read, use.bytes_written);
  }
}

std::size_t DecisionPath::drop_moves(ChunkId first, std::size_t chunks) {
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < chunks; ++i) {
    for (const MoveNumber number : planner_.note_gone(nth(first, i)))
      dropped += forget_waiting(number) ? 1 : 0;
  }
  reserve_notices(chunks);
  return dropped;
}

void DecisionPath::gone(ChunkId first, std::size_t chunks) {
  books_->remove(first, chunks);
  for (std::size_t i = 0; i < chunks; ++i) notices_.emplace_back(nth(first, i));
}

/// So that adding up to `more` does not allocate.
void DecisionPath::reserve_notices(std::size_t more) {
  const std::size_t count = notices_.size() + more;
  if (count > notices_.capacity()) notices_.reserve(2 * count + 8);
}

// --- Asking the policy

DecisionPath::Question DecisionPath::question(PolicyCall call) {
  Question question;
  question.wishes = std::make_shared<Plan>();
  const auto notices = std::make_shared<std::vector<Notice>>(std::exchange(notices_, {}));
  question.ask = [call = std::move(call), wishes = question.wishes, notices,
                  books = books_](Policy& policy) {
    const Snapshot snapshot(*books);
    for (const Notice& notice : *notices) {
      if (const auto* gone = std::get_if<ChunkId>(&notice)) policy.on_gone(*gone);
      if (const auto* result = std::get_if<MoveResult>(&notice))
        policy.on_result(*result, snapshot);
    }
    call(policy, snapshot, *wishes);
  };
  return question;
}

std::vector<PlaceId> DecisionPath::first_places(PlaceId user, std::span<const std::uint64_t> chunks,
                                                const std::function<bool(PlaceId)>& reached) const {
  std::vector<std::uint64_t> free_bytes;
  for (const PlaceState& place : snapshot().places()) free_bytes.push_back(place.free_bytes());
  std::vector<PlaceId> chosen;
  chosen.reserve(chunks.size());
  for (const std::uint64_t bytes : chunks) {
    PlaceId best = user;  // If nothing has room: the pressure there finds some, or refuses.
    for (const PlaceId at : snapshot().costs().by_speed(user)) {
      if (free_bytes[index(at)] < bytes || !reached(at)) continue;
      best = at;
      free_bytes[index(at)] -= bytes;
      break;
    }
    chosen.push_back(best);
  }
  return chosen;
}

// --- Plans

PlanOutcome DecisionPath::accept(const Plan& plan, bool awaited) {
  PlanOutcome outcome = planner_.plan(plan, snapshot());
  // All or none: a chunk with an accepted move that is never started could not move again.
  std::map<MoveNumber, Waiting> kept;
  try {
    for (AcceptedMove& move : outcome.accepted) {
      // Moves of policies precede those that only make room for them.
      move.goes_last = move.victim && !awaited;
      kept.emplace(move.number, Waiting{move, awaited, 0});
    }
  } catch (...) {
    planner_.take_back(outcome.accepted);
    throw;
  }
  waiting_.merge(kept);
  // Otherwise policies would wish for the move again and make room for it twice.
  for (const AcceptedMove& move : outcome.accepted) books_->row(move.chunk).moving = true;
  return outcome;
}

void DecisionPath::complete_pressure(const Pressure& pressure, Plan& plan) const {
  planner_.complete_pressure(pressure, snapshot(), plan);
}

void DecisionPath::note_decision(MoveNumber number, std::uint64_t decision) {
  waiting_.at(number).decision = decision;
}

// --- Moves

std::vector<MoveNumber> DecisionPath::waiting() const {
  std::vector<MoveNumber> moves;
  for (const auto& [number, waiting] : waiting_) moves.push_back(number);
  return moves;
}

std::vector<MoveNumber> DecisionPath::awaited_from(PlaceId from) const {
  std::vector<MoveNumber> moves;
  for (const auto& [number, waiting] : waiting_)
    if (waiting.awaited && waiting.move.from == from) moves.push_back(number);
  return moves;
}

const AcceptedMove* DecisionPath::find_waiting(MoveNumber number) const {
  const auto found = waiting_.find(number);
  return found == waiting_.end() ? nullptr : &found->second.move;
}

std::vector<MoveNumber> DecisionPath::ready() const {
  std::vector<MoveNumber> first, last;
  for (const auto& [number, waiting] : waiting_) {
    if (planner_.may_start(number, snapshot()))
      (waiting.move.goes_last ? last : first).push_back(number);
  }
  first.insert(first.end(), last.begin(), last.end());
  return first;
}

/// Whether a move can join the group's migration: the next slot of the same allocation, between the
/// same places, and the group is below its maximum size.
bool DecisionPath::joins(const MoveGroup& group, const AcceptedMove& move) const {
  const AcceptedMove& last = group.moves.back();
  const ChunkRow& before = snapshot().chunk(last.chunk);
  const ChunkRow& row = snapshot().chunk(move.chunk);
  return row.allocation == before.allocation && row.slot == before.slot + 1 &&
         move.from == group.from && move.to == group.to && move.keep_copy == last.keep_copy &&
         move.goes_last == last.goes_last && group.moves.size() < group_chunks_max &&
         (group.moves.size() + 1) * move.bytes <= group_bytes_max;
}

void DecisionPath::take(std::span<const MoveNumber> ready, std::vector<MoveGroup>& groups) {
  for (const MoveNumber number : ready) {
    // Checked again: those before it may have taken the room.
    if (!planner_.may_start(number, snapshot())) continue;
    const auto found = waiting_.find(number);
    AcceptedMove& move = found->second.move;
    if (groups.empty() || !joins(groups.back(), move)) {
      if (move.goes_last && leaving_[index(move.from)] > 0) continue;
      MoveGroup group;
      group.from = move.from;
      group.to = move.to;
      group.moves.reserve(group_chunks_max);
      group.decisions.reserve(group_chunks_max);
      groups.push_back(std::move(group));
    }
    // Nothing below allocates.
    books_->expect(move.to, move.bytes);
    planner_.note_started(number);
    leaving_[index(move.from)] += move.goes_last ? 1 : 0;
    groups.back().decisions.push_back(found->second.decision);
    groups.back().moves.push_back(std::move(move));
    waiting_.erase(found);
  }
}

std::size_t DecisionPath::end(const AcceptedMove& move, bool moved, Time took, Time stall) {
  reserve_notices(1);
  if (moved) books_->touch(move.chunk);  // So that `moved` below needs no memory.
  // The last step that may throw: the books change together.
  const Time now = books_->now();
  const std::vector<MoveNumber> fallen = planner_.note_ended(move.number, moved, now);
  books_->expect_no_more(move.to, move.bytes);
  leaving_[index(move.from)] -= move.goes_last ? 1 : 0;
  if (moved) books_->moved(move.chunk, move.to);
  std::size_t dropped = 0;
  for (const MoveNumber number : fallen) dropped += forget_waiting(number) ? 1 : 0;
  ChunkRow& row = books_->row(move.chunk);
  row.moving = planner_.is_moving(move.chunk);  // A second leg may follow.
  row.recent_moves = planner_.recent_moves(move.chunk, now);
  notices_.emplace_back(MoveResult{move.chunk, move.from, move.to, moved, took, stall});
  return dropped;
}

void DecisionPath::give_up(MoveNumber number) {
  if (!waiting_.contains(number)) return;
  for (const MoveNumber dropped : planner_.note_ended(number, false, books_->now()))
    forget_waiting(dropped);
  forget_waiting(number);
}

/// False if it does not wait. Requires: the planner has forgotten it.
bool DecisionPath::forget_waiting(MoveNumber number) {
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return false;
  const ChunkId chunk = found->second.move.chunk;
  waiting_.erase(found);
  books_->row(chunk).moving = planner_.is_moving(chunk);
  return true;
}

}  // namespace vma
