#include "placement/planning/move_order.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace vma {

SwapGroups::SwapGroups(std::span<const Proposal> proposals,
                       std::span<const std::optional<MoveRefusal>> out,
                       std::vector<std::int64_t> room, double colder_factor)
    : proposals_(proposals),
      colder_factor_(colder_factor),
      room_(std::move(room)),
      victims_(room_.size()),
      used_(room_.size()) {
  for (std::size_t i = 0; i < proposals_.size(); ++i) {
    if (out[i]) continue;
    const std::size_t from = index(proposals_[i].from);
    if (proposals_[i].victim) {
      victims_[from].push_back(i);
    } else {
      movers_.push_back(i);
      room_[from] += static_cast<std::int64_t>(proposals_[i].bytes);
    }
  }
  std::ranges::sort(movers_, [&](std::size_t left, std::size_t right) {
    return goes_before(proposals_[left], proposals_[right]);
  });
  for (std::vector<std::size_t>& victims : victims_) {
    std::ranges::sort(victims, {}, [&](std::size_t i) {
      return std::tuple(proposals_[i].use_per_byte, proposals_[i].chunk, i);
    });
  }
}

std::optional<std::size_t> SwapGroups::next() {
  members_.clear();
  if (next_mover_ == movers_.size()) return std::nullopt;
  const std::size_t mover = movers_[next_mover_++];
  const Proposal& proposal = proposals_[mover];
  const std::vector<std::size_t>& victims = victims_[index(proposal.to)];
  std::int64_t room = room_[index(proposal.to)];
  for (std::size_t i = used_[index(proposal.to)]; i < victims.size(); ++i) {
    const Proposal& victim = proposals_[victims[i]];
    if (room >= static_cast<std::int64_t>(proposal.bytes)) break;
    if (!(victim.use_per_byte * colder_factor_ < proposal.use_per_byte)) break;
    room += static_cast<std::int64_t>(victim.bytes);
    members_.push_back(victims[i]);
  }
  members_.push_back(mover);
  return mover;
}

void SwapGroups::take() {
  const Proposal& mover = proposals_[members_.back()];
  for (const std::size_t i : members_) {
    const auto bytes = static_cast<std::int64_t>(proposals_[i].bytes);
    room_[index(proposals_[i].to)] -= bytes;
    if (proposals_[i].victim) room_[index(proposals_[i].from)] += bytes;
  }
  used_[index(mover.to)] += members_.size() - 1;
}

void SwapGroups::leave_out() {
  const Proposal& mover = proposals_[members_.back()];
  room_[index(mover.from)] -= static_cast<std::int64_t>(mover.bytes);
}

std::vector<std::size_t> SwapGroups::spare_victims() const {
  std::vector<std::size_t> spare;
  for (std::size_t at = 0; at < victims_.size(); ++at) {
    spare.insert(spare.end(), victims_[at].begin() + static_cast<std::ptrdiff_t>(used_[at]),
                 victims_[at].end());
  }
  return spare;
}

MoveOrder::MoveOrder(std::span<const Proposal> proposals, std::vector<std::int64_t> room,
                     const Detours* detours)
    : proposals_(proposals),
      detours_(detours),
      room_(std::move(room)),
      left_bytes_(room_.size()),
      left_(room_.size()),
      left_first_(room_.size()),
      waiting_(room_.size()) {}

std::optional<std::size_t> MoveOrder::order(const std::vector<bool>& taken) {
  wait_in_order(taken);
  for (std::size_t at = room_.size(); at-- > 0;) retry_.push_back(at);
  arrange();
  // Each round sends one proposal through a third place, and each proposal goes through one at most
  // once.
  while (detours_ != nullptr && part_ring()) arrange();
  return cheapest_waiting();
}

/// Victims first, since others wait for them; then those of most value.
void MoveOrder::wait_in_order(const std::vector<bool>& taken) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < proposals_.size(); ++i) {
    if (taken[i]) order.push_back(i);
  }
  std::ranges::sort(order, [&](std::size_t left, std::size_t right) {
    if (proposals_[left].victim != proposals_[right].victim) return proposals_[left].victim;
    return goes_before(proposals_[left], proposals_[right]);
  });
  for (const std::size_t i : order) {
    waiting_[index(proposals_[i].to)].push_back(
        {i, AcceptedMove::Leg::direct, proposals_[i].from, proposals_[i].to, std::nullopt});
  }
}

/// Places moves that have their room, until no more have.
void MoveOrder::arrange() {
  while (!retry_.empty()) {
    const std::size_t at = retry_.back();
    retry_.pop_back();
    std::vector<Waiting> still;
    for (const Waiting& move : std::exchange(waiting_[at], {})) {
      if (!place_move(move)) still.push_back(move);
    }
    waiting_[at] = std::move(still);
  }
}

/// Promises room to the move if there is enough, and records what it leaves behind.
bool MoveOrder::place_move(const Waiting& move) {
  const std::uint64_t bytes = proposals_[move.proposal].bytes;
  const std::size_t to = index(move.to), from = index(move.from);
  if (available(move.to) < static_cast<std::int64_t>(bytes)) return false;
  OrderedMove placed{move.proposal, move.leg, move.from, move.to, 0, {}, {}};
  if (move.first_leg) placed.after.push_back(*move.first_leg);
  // A place that is over its capacity is brought within it by the claims of the first moves.
  placed.reserved = std::min(room_[to], static_cast<std::int64_t>(bytes));
  room_[to] -= placed.reserved;
  auto missing = static_cast<std::uint64_t>(static_cast<std::int64_t>(bytes) - placed.reserved);
  left_bytes_[to] -= static_cast<std::int64_t>(missing);
  while (missing > 0) {
    OrderedMove::Claim& left = left_[to][left_first_[to]];
    const std::uint64_t claimed = std::min(left.bytes, missing);
    placed.claims.push_back({left.from, claimed});
    if (std::ranges::find(placed.after, left.from) == placed.after.end())
      placed.after.push_back(left.from);
    left.bytes -= claimed;
    missing -= claimed;
    if (left.bytes == 0) ++left_first_[to];
  }
  moves_.push_back(std::move(placed));
  left_[from].push_back({moves_.size() - 1, bytes});
  left_bytes_[from] += static_cast<std::int64_t>(bytes);
  retry_.push_back(from);
  return true;
}

/// Sends one of those that wait for each other through a third place. False if none has one.
bool MoveOrder::part_ring() {
  std::vector<Waiting> ring;
  for (const std::vector<Waiting>& waiting : waiting_) {
    for (const Waiting& move : waiting) {
      // Moves that no other waits for do not help.
      if (move.leg == AcceptedMove::Leg::direct && !waiting_[index(move.from)].empty())
        ring.push_back(move);
    }
  }
  std::ranges::sort(ring, [&](const Waiting& left, const Waiting& right) {
    const Proposal &a = proposals_[left.proposal], &b = proposals_[right.proposal];
    return a.bytes != b.bytes ? a.bytes < b.bytes : goes_before(b, a);
  });
  for (const Waiting& move : ring) {
    const Proposal& proposal = proposals_[move.proposal];
    for (const PlaceId third : detours_->places(proposal)) {
      if (available(third) < static_cast<std::int64_t>(proposal.bytes)) continue;
      std::erase_if(waiting_[index(move.to)],
                    [&](const Waiting& other) { return other.proposal == move.proposal; });
      place_move({move.proposal, AcceptedMove::Leg::first, move.from, third, std::nullopt});
      waiting_[index(move.to)].push_back(
          {move.proposal, AcceptedMove::Leg::second, third, move.to, moves_.size() - 1});
      retry_.push_back(index(move.to));
      detours_->take(proposal, third);
      return true;
    }
  }
  return false;
}

std::optional<std::size_t> MoveOrder::cheapest_waiting() const {
  std::optional<std::size_t> cheapest;
  for (const std::vector<Waiting>& waiting : waiting_) {
    for (const Waiting& move : waiting) {
      if (!cheapest || goes_before(proposals_[*cheapest], proposals_[move.proposal]))
        cheapest = move.proposal;
    }
  }
  return cheapest;
}

}  // namespace vma
