#pragma once

#include "placement/planning/rejection.hpp"
#include "placement/planning/room_fitting.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vma {

/// Iterates over the moves of a plan in the order of value, each with the victims whose room it
/// takes: the coldest that are left at its target, as `RoomFitting` chooses them. What other moves
/// leave behind counts as free. So a budget that does not suffice for all is spent on whole swaps.
class SwapGroups {
 public:
  /// `out`: by wish, set if it takes no part; only read here.
  SwapGroups(std::span<const Wish> wishes, std::span<const std::optional<Refusal>> out,
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
  const std::span<const Wish> wishes_;
  const double colder_factor_;
  std::vector<std::int64_t> room_;
  std::vector<std::size_t> movers_;                // In the order of `goes_before`.
  std::vector<std::vector<std::size_t>> victims_;  // By place that they leave, coldest first.
  std::vector<std::size_t> used_;                  // By place, how many victims are taken.
  std::size_t mover_ = 0;                          // How many were visited.
  std::vector<std::size_t> members_;
};

}  // namespace vma
