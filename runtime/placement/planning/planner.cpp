#include "placement/planning/planner.hpp"

#include "base/check.hpp"
#include "base/printable.hpp"
#include "base/units.hpp"
#include "placement/planning/move_order.hpp"
#include "placement/planning/proposal_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <ranges>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace vma {
namespace {

constexpr int rounds_max = 16;
// A host node of unknown size has UINT64_MAX; this keeps sums of room far from overflow.
constexpr std::uint64_t room_most = INT64_MAX / 4;

MoveRefusal refusal_of(RoomFitting::Verdict verdict, const Proposal& proposal,
                       const Snapshot& snapshot) {
  const std::string to = to_string(snapshot.place(proposal.to).place);
  const std::string from = to_string(snapshot.place(proposal.from).place);
  switch (verdict) {
    case RoomFitting::Verdict::not_colder:
      return {
          MoveRefusal::not_colder,
          fmt::format("{:.3g} of it is used per second, no less than of the chunk that comes to {}",
                      proposal.use_per_byte, from)};
    case RoomFitting::Verdict::not_needed:
      return {MoveRefusal::not_needed,
              fmt::format("the move that it makes room for at {} does not happen", from)};
    case RoomFitting::Verdict::fits:
    case RoomFitting::Verdict::no_room: break;
  }
  return {MoveRefusal::no_room, fmt::format("{} has {} free, and the chunk has {}", to,
                                            bytes_text(snapshot.place(proposal.to).free_bytes()),
                                            bytes_text(proposal.bytes))};
}

}  // namespace

/// The state of a plan while it is being decided.
struct Planner::Round {
  std::vector<std::optional<MoveRefusal>> refused;  // By number in the plan.
  std::vector<Proposal> proposals;                  // Those that passed the checks by themselves.
  std::vector<std::uint64_t> wanted;                // By place: bytes of moves that go there.
  std::vector<std::optional<MoveRefusal>> out;      // By proposal.
  std::vector<bool> stuck;  // By proposal: it is part of a cycle of waiting moves.
  std::vector<bool> ahead;  // By proposal: it spends the stall budget of later.
  MoveBudgets budgets;      // After this round's proposals.
  std::unique_ptr<MoveOrder> order;
};

PlanOutcome Planner::plan(const Plan& plan, const Snapshot& snapshot) {
  Round round;
  check_proposals(plan, snapshot, round);
  round.stuck.resize(round.proposals.size());
  // Without detours, proposals that do not fit are left out at once, and no choice remains.
  for (int rounds = 0; !choose(plan, snapshot, round, rounds < rounds_max);) ++rounds;
  PlanOutcome outcome;
  for (std::size_t i = 0; i < round.proposals.size(); ++i) {
    if (round.out[i]) round.refused[round.proposals[i].number] = std::move(round.out[i]);
  }
  for (std::size_t i = 0; i < round.refused.size(); ++i) {
    if (!round.refused[i]) continue;
    outcome.refused.push_back(
        {i, plan.moves()[i], round.refused[i]->reason, std::move(round.refused[i]->detail)});
  }
  accept(plan, round, snapshot, outcome);
  open_advance(round, snapshot, outcome);
  return outcome;
}

/// If there is no memory for it, the moves are made, but not judged.
void Planner::open_advance(const Round& round, const Snapshot& snapshot, PlanOutcome& outcome) try {
  std::vector<StallAhead::Stake> stakes;
  StallAdvance ahead;
  for (AcceptedMove& move : outcome.accepted) {
    const Proposal& proposal =
        *std::ranges::find(round.proposals, move.proposal, &Proposal::number);
    move.ahead = round.ahead[static_cast<std::size_t>(&proposal - round.proposals.data())];
    if (!move.ahead) continue;
    ahead.stall += in_seconds(snapshot.costs().stall_time(move.from, move.to, move.bytes));
    if (move.leg == AcceptedMove::Leg::second) continue;
    ++ahead.moves;
    ahead.gain += move.value;
    stakes.push_back({move.chunk, proposal.from, proposal.to});
  }
  if (stakes.empty()) return;
  ahead.credit = ahead_.credit(limits_);
  ahead_.open(stakes, ahead.stall, snapshot.costs().gpus());
  outcome.ahead = ahead;
} catch (const std::bad_alloc&) {
}

void Planner::take_back(std::span<const AcceptedMove> accepted) noexcept {
  const auto is_ahead = [](const AcceptedMove& move) { return move.ahead; };
  if (std::ranges::any_of(accepted, is_ahead)) ahead_.take_back();
  for (const AcceptedMove& move : accepted | std::views::reverse) {
    budgets_.ended(move.from, move.to, move.bytes);
    under_way_.withdraw(move.number);
  }
}

/// Refuses proposals that are wrong by themselves.
void Planner::check_proposals(const Plan& plan, const Snapshot& snapshot, Round& round) {
  round.refused.resize(plan.moves().size());
  round.wanted.resize(snapshot.places().size());
  std::unordered_set<ChunkId> seen;
  for (std::size_t i = 0; i < plan.moves().size(); ++i) {
    const Move& move = plan.moves()[i];
    std::optional<MoveRefusal>& refused = round.refused[i];
    if (i >= limits_.moves_max) {
      refused = {MoveRefusal::plan_too_long,
                 fmt::format("it is number {} of {}; at most {} are accepted", i + 1,
                             plan.moves().size(), limits_.moves_max)};
      continue;
    }
    refused = refuse_move(move, snapshot, under_way_, history_, limits_);
    if (!move.victim && index(move.to) < round.wanted.size() &&
        index(move.chunk) < snapshot.chunks().size()) {
      round.wanted[index(move.to)] += snapshot.chunk(move.chunk).bytes;
    }
    if (refused) continue;
    if (!seen.insert(move.chunk).second) {
      refused = {MoveRefusal::already_moving, "the plan already moves it"};
      continue;
    }
    const ChunkRow& row = snapshot.chunk(move.chunk);
    round.proposals.push_back({i, move.chunk, row.at, move.to, row.bytes, move.victim,
                               move.value / static_cast<double>(row.bytes),
                               move.foreseen ? 0 : use_per_byte(move.chunk, snapshot)});
  }
}

/// Bytes that are free and not reserved, by place; negative if more is used than allowed.
std::vector<std::int64_t> Planner::room(const Snapshot& snapshot) const {
  std::vector<std::int64_t> room;
  for (std::size_t at = 0; at < snapshot.places().size(); ++at) {
    const PlaceState& place = snapshot.places()[at];
    room.push_back(static_cast<std::int64_t>(std::min(place.capacity_bytes, room_most)) -
                   static_cast<std::int64_t>(place.used_bytes) -
                   under_way_.reserved(PlaceId{static_cast<std::uint8_t>(at)}));
  }
  return room;
}

/// In the order of value, each move with the victims that it needs: they are made together or not
/// at all. Remaining victims come last.
void Planner::refuse_over_budget(const Plan& plan, const Snapshot& snapshot, Round& round) const {
  const std::vector<Proposal>& proposals = round.proposals;
  SwapGroups groups(proposals, round.out, room(snapshot), limits_.colder_factor);
  while (const std::optional<std::size_t> mover = groups.next()) {
    std::vector<MoveBudgets::Leg> legs;
    for (const std::size_t i : groups.members())
      legs.push_back({proposals[i].from, proposals[i].to, proposals[i].bytes});
    const double stall = MoveBudgets::stall_of(legs, snapshot);
    const double gain = plan.moves()[proposals[*mover].number].value;
    const double credit =
        ahead_.pays(gain, stall, snapshot.costs().gpus(), limits_) ? ahead_.credit(limits_) : 0;
    if (auto refused = round.budgets.refuse(legs, snapshot, limits_, credit)) {
      round.out[*mover] = std::move(refused);
      groups.leave_out();
      continue;
    }
    if (round.budgets.overdraws(legs, snapshot, limits_)) {
      for (const std::size_t i : groups.members()) round.ahead[i] = true;
    }
    for (const MoveBudgets::Leg& leg : legs)
      round.budgets.spend(leg.from, leg.to, leg.bytes, snapshot, limits_);
    groups.take();
  }
  for (const std::size_t i : groups.spare_victims()) {
    const Proposal& proposal = proposals[i];
    round.out[i] =
        round.budgets.refuse(proposal.from, proposal.to, proposal.bytes, snapshot, limits_);
    if (!round.out[i])
      round.budgets.spend(proposal.from, proposal.to, proposal.bytes, snapshot, limits_);
  }
}

/// Chooses and orders. False if a proposal turned out to be stuck: the next round leaves it out.
bool Planner::choose(const Plan& plan, const Snapshot& snapshot, Round& round,
                     bool with_detours) const {
  const std::size_t count = round.proposals.size();
  round.budgets = budgets_;
  round.out.assign(count, std::nullopt);
  round.ahead.assign(count, false);
  for (std::size_t i = 0; i < count; ++i) {
    if (round.stuck[i])
      round.out[i] = refusal_of(RoomFitting::Verdict::no_room, round.proposals[i], snapshot);
  }
  refuse_over_budget(plan, snapshot, round);
  std::vector<bool> left_out(count), taken(count);
  for (std::size_t i = 0; i < count; ++i) left_out[i] = round.out[i].has_value();
  RoomFitting fitting(round.proposals, room(snapshot), round.wanted, limits_.colder_factor);
  const std::vector<RoomFitting::Verdict> verdicts = fitting.fit(left_out);
  for (std::size_t i = 0; i < count; ++i) {
    taken[i] = !left_out[i] && verdicts[i] == RoomFitting::Verdict::fits;
    if (!taken[i] && !left_out[i])
      round.out[i] = refusal_of(verdicts[i], round.proposals[i], snapshot);
  }
  Detours detours;
  detours.places = [&](const Proposal& proposal) {
    return third_places(proposal, snapshot, round.budgets, limits_);
  };
  detours.take = [&](const Proposal& proposal, PlaceId third) {
    round.budgets.spend(proposal.from, third, proposal.bytes, snapshot, limits_);
    round.budgets.spend(third, proposal.to, proposal.bytes, snapshot, limits_);
  };
  round.order = std::make_unique<MoveOrder>(round.proposals, room(snapshot),
                                            with_detours ? &detours : nullptr);
  const std::optional<std::size_t> stuck = round.order->order(taken);
  if (stuck) round.stuck[*stuck] = true;
  if (!stuck || with_detours) return !stuck;
  for (const OrderedMove& move : round.order->moves()) taken[move.proposal] = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (taken[i])
      round.out[i] = refusal_of(RoomFitting::Verdict::no_room, round.proposals[i], snapshot);
  }
  return true;
}

/// Accepts all of them or, if it throws, none.
void Planner::accept(const Plan& plan, const Round& round, const Snapshot& snapshot,
                     PlanOutcome& outcome) {
  const std::uint64_t first = last_number_ + 1;
  MoveBudgets budgets = budgets_;
  try {
    for (const OrderedMove& move : round.order->moves()) {
      accept(move, plan, round, first, outcome);
      budgets.spend(move.from, move.to, round.proposals[move.proposal].bytes, snapshot, limits_);
    }
  } catch (...) {
    while (last_number_ >= first) under_way_.withdraw(MoveNumber{last_number_--});
    throw;
  }
  std::swap(budgets_, budgets);
}

void Planner::accept(const OrderedMove& move, const Plan& plan, const Round& round,
                     std::uint64_t first, PlanOutcome& outcome) {
  const Proposal& proposal = round.proposals[move.proposal];
  const Move& wanted = plan.moves()[proposal.number];
  AcceptedMove accepted{MoveNumber{++last_number_},
                        proposal.number,
                        proposal.chunk,
                        move.from,
                        move.to,
                        proposal.bytes,
                        wanted.value,
                        wanted.reason,
                        move.leg,
                        {},
                        wanted.keep_copy,
                        proposal.victim};
  for (const std::size_t earlier : move.after)
    accepted.after.push_back(MoveNumber{first + earlier});
  std::vector<RoomClaim> claims;
  for (const OrderedMove::Claim& claim : move.claims)
    claims.push_back({MoveNumber{first + claim.from}, claim.bytes});
  under_way_.accept(accepted, move.reserved, std::move(claims));
  outcome.accepted.push_back(std::move(accepted));
}

bool Planner::may_start(MoveNumber number, const Snapshot& snapshot) const {
  if (!under_way_.may_start(number)) return false;
  const MovesUnderWay::Entry& entry = under_way_.entry(number);
  return snapshot.place(entry.to).free_bytes() >= entry.bytes;
}

void Planner::note_started(MoveNumber number) {
  under_way_.started(number);
}

std::vector<MoveNumber> Planner::note_ended(MoveNumber number, bool moved, Time now) {
  // Allocate first: if this throws, the move is still in progress.
  std::vector<MoveNumber> fallen;
  fallen.reserve(moved ? 0 : under_way_.size());
  MovesUnderWay::Ended over;
  over.reserve(moved ? 1 : under_way_.size());
  under_way_.ended(number, moved, over);
  for (const auto& [which, entry] : over) {
    budgets_.ended(entry.from, entry.to, entry.bytes);
    ahead_.ended(entry.chunk, entry.to, which == number && moved, now, limits_);
    if (which != number) fallen.push_back(which);
  }
  const MovesUnderWay::Entry& entry = over.front().second;
  // A detour counts as one move, when it reaches its final place.
  if (moved && entry.leg != AcceptedMove::Leg::first) history_.moved(entry.chunk, now, limits_);
  std::ranges::sort(fallen);
  return fallen;
}

std::vector<MoveNumber> Planner::note_gone(ChunkId chunk) {
  // Allocate first: if this throws, the moves are still in progress.
  const std::vector<MoveNumber> numbers = under_way_.moves_of(chunk);
  std::vector<MoveNumber> fallen;
  fallen.reserve(under_way_.size());
  MovesUnderWay::Ended over;
  over.reserve(under_way_.size());
  for (const MoveNumber number : numbers) {
    if (!under_way_.contains(number)) continue;  // A second leg is dropped with the first.
    VMART_CHECK(!under_way_.entry(number).started, "a moving chunk is not removed");
    under_way_.ended(number, false, over);
  }
  for (const auto& [which, entry] : over) {
    budgets_.ended(entry.from, entry.to, entry.bytes);
    fallen.push_back(which);
  }
  history_.forget(chunk);
  ahead_.forget(chunk);
  std::ranges::sort(fallen);
  return fallen;
}

std::uint8_t Planner::recent_moves(ChunkId chunk, Time now) const {
  return static_cast<std::uint8_t>(
      std::min<std::uint32_t>(255, history_.recent_moves(chunk, now, limits_)));
}

namespace {

/// Goes over the chunks of a place, the coldest first: longest idle, then least used per byte, then
/// by number.
class Coldest {
 public:
  Coldest(const IdleOrder& idle, PlaceId at, const Snapshot& snapshot)
      : walk_(idle, at, snapshot.chunks()), snapshot_(snapshot), ahead_(walk_.next()) {}

  /// None at the end.
  std::optional<ChunkId> next() {
    if (equals_.empty()) gather();
    if (equals_.empty()) return std::nullopt;
    const ChunkId coldest = equals_.back().second;
    equals_.pop_back();
    return coldest;
  }

 private:
  static constexpr std::size_t compared_max = 256;

  /// Those that are idle for the same time, the coldest last.
  void gather() {
    if (!ahead_) return;
    const Time last_use = last_use_of(snapshot_.chunk(*ahead_));
    while (ahead_ && last_use_of(snapshot_.chunk(*ahead_)) == last_use &&
           equals_.size() < compared_max) {
      equals_.emplace_back(use_per_byte(*ahead_, snapshot_), *ahead_);
      ahead_ = walk_.next();
    }
    std::ranges::sort(equals_, std::greater());
  }

  IdleOrder::Walk walk_;
  const Snapshot& snapshot_;
  std::optional<ChunkId> ahead_;  // None at the end.
  std::vector<std::pair<double, ChunkId>> equals_;
};

/// Takes the room of a victim at the fastest other place that has enough.
std::optional<PlaceId> find_room(ChunkId chunk, const Pressure& pressure, const Snapshot& snapshot,
                                 std::vector<std::int64_t>& room) {
  const auto bytes = static_cast<std::int64_t>(snapshot.chunk(chunk).bytes);
  for (const PlaceId to : places_for(chunk, pressure.device, snapshot)) {
    if (to == pressure.at || room[index(to)] < bytes || !can_lie_at(chunk, to, snapshot)) continue;
    room[index(to)] -= bytes;
    return to;
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t Planner::complete_pressure(const Pressure& pressure, const Snapshot& snapshot,
                                         const IdleOrder& idle, Plan& plan) const {
  if (index(pressure.at) >= snapshot.places().size()) return 0;
  std::vector<std::int64_t> left = room(snapshot);
  std::unordered_set<ChunkId> planned;
  std::uint64_t freed = 0;
  for (const Move& move : plan.moves()) {
    if (refuse_move(move, snapshot, under_way_, history_, limits_)) continue;
    const ChunkRow& row = snapshot.chunk(move.chunk);
    const auto bytes = static_cast<std::int64_t>(row.bytes);
    if (row.at != pressure.at || !planned.insert(move.chunk).second) continue;
    if (left[index(move.to)] < bytes) continue;
    left[index(move.to)] -= bytes;
    freed += row.bytes;
  }
  if (freed >= pressure.bytes || (pressure.elsewhere && plan.declines())) return freed;

  // Room only shrinks: what is larger than all of it is no candidate.
  std::int64_t largest = 0;
  for (std::size_t at = 0; at < left.size(); ++at)
    if (at != index(pressure.at)) largest = std::max(largest, left[at]);
  if (largest == 0) return freed;

  Coldest order(idle, pressure.at, snapshot);
  while (freed < pressure.bytes) {
    const std::optional<ChunkId> coldest = order.next();
    if (!coldest) break;
    const ChunkId chunk = *coldest;
    const ChunkRow& row = snapshot.chunk(chunk);
    if (static_cast<std::int64_t>(row.bytes) > largest || planned.contains(chunk)) continue;
    if (refuse_chunk(chunk, snapshot, under_way_, history_, limits_)) continue;
    const std::optional<PlaceId> to = find_room(chunk, pressure, snapshot, left);
    if (!to) continue;
    const Time idle_for = snapshot.now() - last_use_of(row);
    plan.evict(chunk, *to,
               fmt::format("{} needs room; it has been idle for {:.3f} s",
                           to_string(snapshot.place(pressure.at).place),
                           std::chrono::duration<double>(idle_for).count()));
    freed += row.bytes;
  }
  return freed;
}

}  // namespace vma
