#include "unit/placement/planning/planner_rig.hpp"

#include <numbers>

namespace vma {
PlannerLimits no_limits() {
  PlannerLimits limits;
  limits.least_residence = Time{0};
  limits.thrash_moves = 0;
  limits.route_bytes_s = 0;
  limits.stall_share = 0;
  limits.stall_ahead = Time{0};
  return limits;
}

PlannerRig::PlannerRig(const PolicyMachine& machine, const PlannerLimits& limits)
    : tables_(machine.places(), machine.costs), planner_(limits) {
  tables_.set_now(std::chrono::seconds(1));
}

ChunkId PlannerRig::add(std::uint64_t bytes, PlaceId at) {
  const ChunkTables::NewChunk chunk{bytes, at};
  const ChunkId added = tables_.add(++last_allocation_, "", {&chunk, 1});
  check_capacity();
  return added;
}

void PlannerRig::heat(ChunkId chunk, PlaceId device, double per_byte) {
  // A single use raises the short average most, and the greatest average counts.
  const double bytes = static_cast<double>(snapshot().chunk(chunk).bytes);
  tables_.used(chunk, device, per_byte * bytes / std::numbers::ln2, 0);
}

PlanOutcome PlannerRig::plan(const Plan& proposals) {
  PlanOutcome outcome = planner_.plan(proposals, snapshot());
  std::vector<int> seen(proposals.moves().size());
  for (const AcceptedMove& move : outcome.accepted) {
    EXPECT_FALSE(move.reason.empty());
    EXPECT_TRUE(accepted_.emplace(move.number, move).second) << "a number is used once";
    if (move.leg != AcceptedMove::Leg::second) ++seen.at(move.proposal);
    for (const MoveNumber number : move.after)
      EXPECT_LT(number, move.number) << "it waits for one that comes later";
  }
  for (const RefusedMove& move : outcome.refused) {
    EXPECT_FALSE(move.detail.empty()) << to_string(move.reason);
    ++seen.at(move.proposal);
  }
  for (const int times : seen) EXPECT_EQ(times, 1) << "a proposal is accepted or refused, once";
  return outcome;
}

std::optional<MoveRefusal::Why> PlannerRig::try_move(ChunkId chunk, PlaceId to, double value,
                                                     const std::string& reason) {
  Plan proposal;
  proposal.move(chunk, to, value, reason);
  const PlanOutcome outcome = plan(proposal);
  if (outcome.refused.empty()) return std::nullopt;
  return outcome.refused.front().reason;
}

void PlannerRig::check_capacity() const {
  for (const PlaceState& place : snapshot().places()) {
    EXPECT_LE(place.used_bytes, place.capacity_bytes) << to_string(place.place);
  }
}

void PlannerRig::start(MoveNumber number) {
  const AcceptedMove& move = accepted_.at(number);
  const ChunkRow& row = snapshot().chunk(move.chunk);
  EXPECT_TRUE(row.movable && !row.parked && row.bytes == move.bytes) << "it may not move";
  EXPECT_EQ(index(row.at), index(move.from)) << "it is not where it starts from";
  ASSERT_TRUE(planner_.may_start(number, snapshot()));
  tables_.expect(move.to, move.bytes);
  planner_.note_started(number);
  started_.insert(number);
  check_capacity();  // The chunk counts at both ends.
}

std::vector<MoveNumber> PlannerRig::end(MoveNumber number, bool moved) {
  const AcceptedMove move = accepted_.at(number);
  if (started_.erase(number) > 0) tables_.expect_no_more(move.to, move.bytes);
  if (moved) tables_.moved(move.chunk, move.to);
  std::vector<MoveNumber> fallen = planner_.note_ended(number, moved, tables_.now());
  accepted_.erase(number);
  for (const MoveNumber with_it : fallen) {
    EXPECT_FALSE(started_.contains(with_it)) << "what waits has not started";
    accepted_.erase(with_it);
  }
  check_capacity();
  return fallen;
}

std::size_t PlannerRig::carry_out(const std::function<std::size_t(std::size_t)>& pick,
                                  const std::function<bool()>& fails) {
  std::size_t moved = 0;
  while (!accepted_.empty()) {
    std::vector<MoveNumber> possible(started_.begin(), started_.end());
    const std::size_t ends = possible.size();
    for (const auto& [number, move] : accepted_) {
      if (!started_.contains(number) && planner_.may_start(number, snapshot()))
        possible.push_back(number);
    }
    if (possible.empty()) {
      ADD_FAILURE() << accepted_.size() << " moves wait for each other";
      return moved;
    }
    const std::size_t picked = pick ? pick(possible.size()) : 0;
    if (picked >= ends) {
      start(possible[picked]);
    } else {
      const bool failed = fails && fails();
      end(possible[picked], !failed);
      if (!failed) ++moved;
    }
    if (testing::Test::HasFatalFailure()) return moved;
  }
  EXPECT_EQ(planner_.under_way(), 0u);
  for (std::size_t i = 0; i < snapshot().places().size(); ++i)
    EXPECT_LE(used(gpu_place(i)), snapshot().places()[i].capacity_bytes);
  tables_.check_invariants();
  return moved;
}

void PlannerRig::move_now(ChunkId chunk, PlaceId to) {
  ASSERT_EQ(try_move(chunk, to), std::nullopt);
  ASSERT_EQ(carry_out(), 1u);
}

std::string describe(const std::vector<AcceptedMove>& moves) {
  std::string text;
  for (const AcceptedMove& move : moves) {
    if (!text.empty()) text += ", ";
    text += std::to_string(index(move.chunk)) + " to " + std::to_string(index(move.to));
    for (const MoveNumber number : move.after) {
      for (const AcceptedMove& other : moves) {
        if (other.number == number) text += " after " + std::to_string(index(other.chunk));
      }
    }
  }
  return text;
}

std::string describe(const std::vector<RefusedMove>& moves) {
  std::string text;
  for (const RefusedMove& move : moves) {
    if (!text.empty()) text += ", ";
    text += std::to_string(index(move.move.chunk)) + " " + std::string(to_string(move.reason));
  }
  return text;
}

}  // namespace vma
