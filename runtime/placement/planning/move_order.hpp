#pragma once

#include "placement/planning/planned_move.hpp"
#include "placement/planning/room_fitting.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace vma {

/// Iterates over the moves of a plan in the order of value, each with the victims whose room it
/// takes: the coldest that are left at its target, as `RoomFitting` chooses them. What other moves
/// leave behind counts as free. So a budget that does not suffice for all is spent on whole swaps.
class SwapGroups {
 public:
  /// `out`: by proposal, set if it takes no part; only read here.
  SwapGroups(std::span<const Proposal> proposals, std::span<const std::optional<MoveRefusal>> out,
             std::vector<std::int64_t> room, double colder_factor);

  /// The next move; none after the last.
  std::optional<std::size_t> next();
  /// The victims of that move, and the move.
  std::span<const std::size_t> members() const noexcept { return members_; }
  /// The move is made, and takes its victims' room.
  void take();
  /// The move is not made, and leaves its victims to the following ones.
  void leave_out();
  /// Victims of no move that was taken.
  std::vector<std::size_t> spare_victims() const;

 private:
  const std::span<const Proposal> proposals_;
  const double colder_factor_;
  std::vector<std::int64_t> room_;
  std::vector<std::size_t> movers_;                // In the order of `goes_before`.
  std::vector<std::vector<std::size_t>> victims_;  // By place that they leave, coldest first.
  std::vector<std::size_t> used_;                  // By place, how many victims are taken.
  std::size_t next_mover_ = 0;                     // How many were visited.
  std::vector<std::size_t> members_;
};

/// Where a chunk may wait if it has to make way for the one that takes its place.
struct Detours {
  /// Third places that a proposal may go through, the best first.
  std::function<std::vector<PlaceId>(const Proposal&)> places;
  /// Called when a proposal goes through that place.
  std::function<void(const Proposal&, PlaceId)> take;
};

/// A move and what it waits for, by the index of earlier moves.
struct OrderedMove {
  struct Claim {
    std::size_t from = 0;
    std::uint64_t bytes = 0;
  };
  std::size_t proposal = 0;  ///< Index into the proposals.
  AcceptedMove::Leg leg = AcceptedMove::Leg::direct;
  PlaceId from{}, to{};
  std::int64_t reserved = 0;  ///< Out of the room that is free now; see `MovesUnderWay`.
  std::vector<Claim> claims;  ///< On the room that other moves leave behind.
  std::vector<std::size_t> after;
};

/// Orders moves that fit together so that they can be made: each has its room, free or left behind
/// by earlier moves, once those that it waits for have ended. No byte of room is promised twice, so
/// moves without an order between them may run in any order and concurrently.
///
/// A cycle of moves that wait for each other is broken by sending one of them through a third
/// place, the smallest that has one.
class MoveOrder {
 public:
  /// `room`: by place, bytes that are free and not reserved.
  MoveOrder(std::span<const Proposal> proposals, std::vector<std::int64_t> room,
            const Detours* detours);

  /// Orders those with `taken` set. Returns a proposal that cannot be made, the cheapest of those
  /// that wait for each other; then `moves` has no meaning if there are detours. Without detours
  /// (null), `moves` has all moves that need none.
  std::optional<std::size_t> order(const std::vector<bool>& taken);
  const std::vector<OrderedMove>& moves() const noexcept { return moves_; }

 private:
  struct Waiting {
    std::size_t proposal = 0;
    AcceptedMove::Leg leg = AcceptedMove::Leg::direct;
    PlaceId from{}, to{};
    std::optional<std::size_t> first_leg;
  };

  void wait_in_order(const std::vector<bool>& taken);
  void arrange();
  bool place_move(const Waiting& move);
  bool part_ring();
  std::optional<std::size_t> cheapest_waiting() const;
  std::int64_t available(PlaceId at) const { return room_[index(at)] + left_bytes_[index(at)]; }

  std::span<const Proposal> proposals_;
  const Detours* const detours_;
  std::vector<std::int64_t> room_;                     // Free now, and not promised.
  std::vector<std::int64_t> left_bytes_;               // Sum of `left_`.
  std::vector<std::vector<OrderedMove::Claim>> left_;  // By place: left behind, not promised.
  std::vector<std::size_t> left_first_;                // Those before it have been promised.
  std::vector<std::vector<Waiting>> waiting_;          // By target, in order.
  std::vector<OrderedMove> moves_;
  std::vector<std::size_t> retry_;  // Places where room was left behind.
};

}  // namespace vma
