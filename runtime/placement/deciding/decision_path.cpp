#include "placement/deciding/decision_path.hpp"

#include "base/units.hpp"
#include "base/vectors.hpp"

#include <algorithm>
#include <utility>

namespace vma {
namespace {

/// How many accepted moves form one migration. Its chunks share gates, each of which waits for all
/// that the application has launched; but while it runs, the migrator does nothing else with the
/// allocation.
constexpr std::size_t group_chunks_max = 16;
constexpr std::uint64_t group_bytes_max = 1024 * MiB;
/// The same if other moves wait for the room: it counts as free when the whole group has moved.
constexpr std::size_t awaited_chunks_max = 4;
constexpr std::uint64_t awaited_bytes_max = 256 * MiB;
/// Neighbours of a move join it if they are worth at least this share of it per byte.
constexpr double alike_share = 0.5;

constexpr std::size_t ahead = 8;  // How many uses ahead to prefetch.

/// Uses of a chunk by a GPU have the same key.
std::uint64_t use_key(const UseEvent& use) {
  static_assert(sizeof(PlaceId) == 1 && sizeof(ChunkId) == 4, "both fit beside a use's number");
  return std::uint64_t{index(use.chunk)} << 8 | index(use.device);
}
constexpr int use_number_bits = 24;  // Of 64, the rest is the key.

ChunkId nth(ChunkId first, std::size_t chunk) {
  return ChunkId{static_cast<std::uint32_t>(index(first) + chunk)};
}

}  // namespace

void UseReports::tell(Policy& policy, const Snapshot& snapshot, Plan& plan) const {
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (i + 2 * ahead < uses.size()) {
      const ChunkRow& row = snapshot.chunk(uses[i + 2 * ahead].chunk);
      __builtin_prefetch(&row);
      __builtin_prefetch(&row.users);  // It may be in the next cache line.
      policy.prepare(uses[i + 2 * ahead].chunk);
    }
    if (i + ahead < uses.size()) snapshot.prepare(uses[i + ahead].chunk);
    policy.on_use(uses[i], snapshot, plan);
  }
  for (UseEvent event : hints) {
    event.hint = snapshot.hint(event.chunk);
    const bool last =
        event.hint != nullptr && event.hint->device == snapshot.place(event.device).place;
    if (last) policy.on_use(event, snapshot, plan);
  }
}

DecisionPath::DecisionPath(std::vector<PlaceState> places, MachineCosts costs,
                           const PlannerLimits& planner, const HeatLimits& heat,
                           const PaceLimits& pace)
    : books_(std::make_shared<ChunkTables>(std::move(places), std::move(costs), heat)),
      planner_(planner),
      pace_(pace),
      leaving_(snapshot().places().size()) {}

void DecisionPath::leave_books() {
  const auto books = std::make_shared<ChunkTables>(*books_);
  books->make_room_in_lists();
  books_ = books;
}

// --- What has happened

/// Stable. Sorts numbers, which are a fifth as long as uses, and then moves each use once.
void DecisionPath::sort_uses(std::vector<UseEvent>& uses) {
  if (std::ranges::is_sorted(uses, {}, use_key)) return;  // As those of one long access.
  if (uses.size() >> use_number_bits != 0) {
    std::ranges::stable_sort(uses, {}, use_key);
    return;
  }
  use_order_.clear();
  for (const UseEvent& use : uses)
    use_order_.push_back(use_key(use) << use_number_bits | use_order_.size());
  std::ranges::sort(use_order_);
  sorted_uses_.clear();
  constexpr std::uint64_t number = (std::uint64_t{1} << use_number_bits) - 1;
  for (const std::uint64_t each : use_order_) sorted_uses_.push_back(uses[each & number]);
  uses.swap(sorted_uses_);
}

void DecisionPath::fold_uses(std::vector<UseEvent>& uses) {
  sort_uses(uses);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (kept > 0 && use_key(uses[kept - 1]) == use_key(uses[i])) {
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
    if (i + 2 * ahead < uses.size()) books_->prepare_row(uses[i + 2 * ahead].chunk);
    if (i + ahead < uses.size()) books_->prepare_use(uses[i + ahead].chunk);
    const UseEvent& use = uses[i];
    books_->used(use.chunk, use.device, use.bytes_read, use.bytes_written);
    planner_.note_use(use, books_->costs());
  }
}

void DecisionPath::take_hint(ChunkId chunk, PlaceId device, Hint hint, Time given,
                             UseReports& reports) {
  if (hint.next_use) *hint.next_use += std::min(given, Time::max() - *hint.next_use);
  if (hint.until) *hint.until += std::min(given, Time::max() - *hint.until);
  books_->hinted(chunk, hint);
  reports.hints.push_back({chunk, device, 0, 0, nullptr});
}

std::size_t DecisionPath::drop_moves(ChunkId first, std::size_t chunks) {
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < chunks; ++i) {
    for (const MoveNumber number : planner_.note_gone(nth(first, i)))
      dropped += forget_waiting(number) ? 1 : 0;
  }
  make_room(notices_, notices_.size() + chunks);
  return dropped;
}

void DecisionPath::gone(ChunkId first, std::size_t chunks) noexcept {
  books_->remove(first, chunks);
  for (std::size_t i = 0; i < chunks; ++i) notices_.emplace_back(nth(first, i));
}

// --- Asking the policy

void DecisionPath::tell(Policy& policy, std::span<const Notice> notices, const Snapshot& snapshot) {
  for (const Notice& notice : notices) {
    if (const auto* gone = std::get_if<ChunkId>(&notice)) policy.on_gone(*gone);
    if (const auto* result = std::get_if<MoveResult>(&notice)) policy.on_result(*result, snapshot);
  }
}

DecisionPath::Question DecisionPath::question(PolicyCall call) {
  Question question;
  question.proposals = std::make_shared<Plan>();
  const auto notices = std::make_shared<std::vector<Notice>>();
  question.ask = [call = std::move(call), proposals = question.proposals, notices,
                  books = books_](Policy& policy) {
    const Snapshot snapshot(*books);
    tell(policy, *notices, snapshot);
    call(policy, snapshot, *proposals);
  };
  notices->swap(notices_);  // Last, so that a call that is not made takes none.
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

std::string DecisionPath::why_held() const {
  if (!pace_.holds()) return {};
  if (pace_.rests() && pace_.verdict()) return to_string(*pace_.verdict());
  return "moves wait: a test looks how the program runs without them";
}

/// The policy proposes them again, or sees that the chunks do not move.
PlanOutcome DecisionPath::hold_back(const Plan& plan) const {
  const std::string detail = why_held();
  PlanOutcome outcome;
  for (const Move& move : plan.moves())
    outcome.refused.push_back({outcome.refused.size(), move, MoveRefusal::held_back, detail});
  return outcome;
}

PlanOutcome DecisionPath::accept(const Plan& plan, bool awaited) {
  if (pace_.holds() && !awaited) return hold_back(plan);
  PlanOutcome outcome = planner_.plan(plan, snapshot());
  // All or none: a chunk with an accepted move that is never started could not move again.
  std::map<MoveNumber, Waiting> kept;
  try {
    for (AcceptedMove& move : outcome.accepted) {
      // Moves of policies precede those that only make room for them.
      move.goes_last = move.victim && !awaited;
      move.awaited = awaited;
      kept.emplace(move.number, Waiting{move, 0});
    }
  } catch (...) {
    planner_.take_back(outcome.accepted);
    throw;
  }
  waiting_.merge(kept);
  // Otherwise policies would propose the move again and make room for it twice.
  for (const AcceptedMove& move : outcome.accepted) books_->row(move.chunk).moving = true;
  return outcome;
}

void DecisionPath::complete_pressure(const Pressure& pressure, Plan& plan) const {
  planner_.complete_pressure(pressure, snapshot(), books_->idle(), plan);
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
    if (waiting.move.awaited && waiting.move.from == from) moves.push_back(number);
  return moves;
}

std::vector<MoveNumber> DecisionPath::not_paying() const {
  std::vector<MoveNumber> moves;
  if (!pace_.rests()) return moves;
  for (const auto& [number, waiting] : waiting_)
    if (!waiting.move.awaited) moves.push_back(number);
  return moves;
}

const AcceptedMove* DecisionPath::find_waiting(MoveNumber number) const {
  const auto found = waiting_.find(number);
  return found == waiting_.end() ? nullptr : &found->second.move;
}

std::vector<MoveNumber> DecisionPath::ready() const {
  std::vector<MoveNumber> first, last;
  for (const auto& [number, waiting] : waiting_) {
    if (pace_.holds() && !waiting.move.awaited) continue;
    if (planner_.may_start(number, snapshot()))
      (waiting.move.goes_last ? last : first).push_back(number);
  }
  first.insert(first.end(), last.begin(), last.end());
  return first;
}

/// Whether a move can join the migration that begins with `first`: of the same allocation, between
/// the same places, about as valuable, and the group is below its maximum size.
bool DecisionPath::joins(const PlannedMigration& group, const AcceptedMove& first,
                         const AcceptedMove& move) const {
  const auto per_byte = [](const AcceptedMove& which) {
    return which.value / static_cast<double>(which.bytes);
  };
  const bool awaited =
      first.goes_last || planner_.is_awaited(first.number) || planner_.is_awaited(move.number);
  return snapshot().chunk(move.chunk).allocation == snapshot().chunk(first.chunk).allocation &&
         move.from == group.from && move.to == group.to && move.keep_copy == first.keep_copy &&
         move.goes_last == first.goes_last && per_byte(move) >= alike_share * per_byte(first) &&
         group.moves.size() < (awaited ? awaited_chunks_max : group_chunks_max) &&
         (group.moves.size() + 1) * move.bytes <= (awaited ? awaited_bytes_max : group_bytes_max);
}

/// Begins a move of the group, which has room for it. Allocates nothing.
void DecisionPath::begin(MoveNumber number, PlannedMigration& group, bool in_front) {
  const auto found = waiting_.find(number);
  AcceptedMove& move = found->second.move;
  books_->expect(move.to, move.bytes);
  planner_.note_started(number);
  if (!move.awaited) pace_.move_began(books_->now());
  leaving_[index(move.from)] += move.goes_last ? 1 : 0;
  group.decisions.insert(in_front ? group.decisions.begin() : group.decisions.end(),
                         found->second.decision);
  group.moves.insert(in_front ? group.moves.begin() : group.moves.end(), std::move(move));
  waiting_.erase(found);
}

/// Adds neighbours of the group's chunks on one side, as long as they may begin.
void DecisionPath::add_neighbours(const AcceptedMove& first, bool in_front,
                                  const std::map<ChunkId, MoveNumber>& ready,
                                  PlannedMigration& group) {
  while (true) {
    const AcceptedMove& edge = in_front ? group.moves.front() : group.moves.back();
    const auto next = ready.find(nth(edge.chunk, in_front ? std::size_t{0} - 1 : 1));
    if (next == ready.end()) return;
    const AcceptedMove* move = find_waiting(next->second);  // Null: it has begun.
    if (move == nullptr || !planner_.may_start(next->second, snapshot())) return;
    if (!joins(group, first, *move)) return;
    begin(next->second, group, in_front);
  }
}

void DecisionPath::take(std::span<const MoveNumber> ready, std::vector<PlannedMigration>& groups) {
  std::map<ChunkId, MoveNumber> by_chunk;
  for (const MoveNumber number : ready) {
    if (const AcceptedMove* move = find_waiting(number)) by_chunk.emplace(move->chunk, number);
  }
  for (const MoveNumber number : ready) {
    // Checked again: those before it may have taken the room, or it may have begun with them.
    const AcceptedMove* move = find_waiting(number);
    if (move == nullptr || !planner_.may_start(number, snapshot())) continue;
    if (move->goes_last && leaving_[index(move->from)] > 0) continue;
    const AcceptedMove first = *move;
    PlannedMigration group;
    group.from = first.from;
    group.to = first.to;
    group.moves.reserve(group_chunks_max);
    group.decisions.reserve(group_chunks_max);
    groups.push_back(std::move(group));
    // Nothing below allocates.
    begin(number, groups.back(), false);
    add_neighbours(first, false, by_chunk, groups.back());
    add_neighbours(first, true, by_chunk, groups.back());
  }
}

std::size_t DecisionPath::end(const AcceptedMove& move, bool moved, Time took, Time stall) {
  make_room(notices_, notices_.size() + 1);
  // The last step that may throw: the books change together.
  const Time now = books_->now();
  const std::vector<MoveNumber> fallen = planner_.note_ended(move.number, moved, now);
  books_->expect_no_more(move.to, move.bytes);
  leaving_[index(move.from)] -= move.goes_last ? 1 : 0;
  if (!move.awaited) pace_.move_ended(now);
  if (moved) books_->moved(move.chunk, move.to);
  std::size_t dropped = 0;
  for (const MoveNumber number : fallen) dropped += forget_waiting(number) ? 1 : 0;
  ChunkRow& row = books_->row(move.chunk);
  row.moving = planner_.is_moving(move.chunk);  // A second leg may follow.
  row.recent_moves = planner_.recent_moves(move.chunk, now);
  notices_.emplace_back(MoveResult{move.chunk, move.from, move.to, moved, took, stall});
  return dropped;
}

Time DecisionPath::stall_credit() const {
  return std::chrono::duration_cast<Time>(std::chrono::duration<double>(planner_.stall_credit()));
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
