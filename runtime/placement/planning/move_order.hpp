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

/// Where a chunk may wait that has to make way for what takes its place.
struct Detours {
  /// Third places that a wish may go over, the best first.
  std::function<std::vector<PlaceId>(const Wish&)> places;
  /// A wish goes over that place.
  std::function<void(const Wish&, PlaceId)> take;
};

/// A move and what it waits for, by the index of earlier ones.
struct OrderedMove {
  struct Claim {
    std::size_t from = 0;
    std::uint64_t bytes = 0;
  };
  std::size_t wish = 0;  ///< Index into the wishes.
  AcceptedMove::Leg leg = AcceptedMove::Leg::direct;
  PlaceId from{}, to{};
  std::int64_t reserved = 0;  ///< Of the room that is free now; see `MovesUnderWay`.
  std::vector<Claim> claims;  ///< Of the room that others leave behind.
  std::vector<std::size_t> after;
};

/// Puts moves that fit together in an order in which they can be made: each has its room, free or
/// left behind by earlier ones, when those that it waits for have ended. No byte of room is
/// promised twice, so the moves that are not ordered may be made in any order and at the same time.
///
/// Moves that wait for each other in a ring are parted by taking one of them over a third place,
/// the smallest for which there is one.
class MoveOrder {
 public:
  /// `room`: by place, what is free and not spoken for.
  MoveOrder(std::span<const Wish> wishes, std::vector<std::int64_t> room, const Detours* detours);

  /// Orders those for which `taken` says so. Returns a wish that cannot be made, the cheapest of
  /// those that wait for each other; then `moves` has no meaning if there are detours. Without
  /// (null), `moves` has all that need none.
  std::optional<std::size_t> order(const std::vector<bool>& taken);
  const std::vector<OrderedMove>& moves() const noexcept { return moves_; }

 private:
  struct Waiting {
    std::size_t wish = 0;
    AcceptedMove::Leg leg = AcceptedMove::Leg::direct;
    PlaceId from{}, to{};
    std::optional<std::size_t> first_leg;
  };

  void wait_in_order(const std::vector<bool>& taken);
  void settle();
  bool place_move(const Waiting& move);
  bool part_ring();
  std::optional<std::size_t> cheapest_waiting() const;
  std::int64_t available(PlaceId at) const { return room_[index(at)] + left_bytes_[index(at)]; }

  std::span<const Wish> wishes_;
  const Detours* const detours_;
  std::vector<std::int64_t> room_;                     // Free now, and not promised.
  std::vector<std::int64_t> left_bytes_;               // Sum of `left_`.
  std::vector<std::vector<OrderedMove::Claim>> left_;  // By place: left behind, not promised.
  std::vector<std::size_t> left_first_;                // What is before has been promised.
  std::vector<std::vector<Waiting>> waiting_;          // By target, in order.
  std::vector<OrderedMove> moves_;
  std::vector<std::size_t> retry_;  // Places where room was left behind.
};

}  // namespace vma
