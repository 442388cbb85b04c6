#pragma once

#include "placement/weighing/chunk_worth.hpp"
#include "placement/weighing/live_allocations.hpp"

#include <vma/policy.hpp>
#include <vma/snapshot.hpp>

#include <cstdint>
#include <vector>

namespace vma::inline v1 {

/// Whether moving pays, kept as an account in seconds. What uses save against first touch goes in;
/// what they lose and what moves cost goes out. An allowance, a small part of the time of all uses,
/// goes in too. Moves are made while there is a balance.
///
///                 balance below 0
///     following ------------------> stopped     back-off doubles
///         ^                            |
///         +----------------------------+
///           after the back-off, with all that was allowed meanwhile; debts are dropped
///
/// So moves that did not pay are tried again, for as much as the load of the program allows, and
/// more each time. Over any time following costs at most the allowance, `start`, of which there is
/// no more than a twentieth of the uses so far, and what was under way when it stopped, by what is
/// reported to it; besides what moved chunks lose, and their way back, once it has stopped. A
/// balance that was earned long ago cannot be lost again, since it fades.
class GuardAccount {
 public:
  struct Limits {
    double start = 0.25;      ///< Seconds at first, as soon as uses have taken 20 times as long.
    double allowance = 0.01;  ///< Part of the seconds of use.
    Time half_life{0};        ///< Of a balance above `start`.
    Time back_off{0}, back_off_max{0};
  };

  explicit GuardAccount(const Limits& limits)
      : limits_(limits),
        start_left_(limits.start),
        allowed_(limits.start),
        back_off_(limits.back_off) {}

  /// A use that takes `seconds` under first touch, `saved` less under the real placement.
  void used(double seconds, double saved);
  /// A move that cost so much.
  void moved(double seconds);
  /// Decides whether to follow, from now on.
  void judge(Time now);

  bool follows() const noexcept { return follows_; }
  /// Whether another move may be made while moves that will cost `pending` have not ended. One may
  /// at zero, as when a program announces its first uses.
  bool affords(double pending) const { return follows_ && balance_ >= pending; }
  double balance() const noexcept { return balance_; }
  Time back_off() const noexcept { return back_off_; }

 private:
  const Limits limits_;
  double balance_ = 0;
  double start_left_;  // What of `start` has not been there so far.
  double allowed_;     // While it was stopped, the last time.
  double earned_ = 0;  // Since it follows.
  bool follows_ = true;
  Time back_off_;
  Time judged_{0}, until_{0};
};

/// Where each chunk would lie under `static`: by first touch, in the order of the device that asked
/// for it, with room as it would be if no policy had ever moved anything. Memory that the program
/// places or moves itself lies where the program wants it, here too; so does what the planner
/// evicts to make room, since it does so under `static` as well.
class StaticShadow {
 public:
  /// The policy was asked to place the request; `chosen`: where its chunks are to be.
  void asked(const AllocRequest& request, std::span<const PlaceId> chosen,
             const Snapshot& snapshot);
  /// Takes in what is new in `Snapshot::changed`.
  void look(const Snapshot& snapshot);
  /// The same, and the list of changes starts anew.
  void end_tick(const Snapshot& snapshot);
  /// Requires: the chunk exists.
  PlaceId at(ChunkId chunk, const Snapshot& snapshot);
  /// Prefetch: `at` is about to be called.
  void prepare(ChunkId chunk) const { prepare_cell(cells_, chunk); }
  /// The guarded policy has moved the chunk: `static` would not have.
  void moved_by_policy(const MoveResult& result);
  void gone(ChunkId chunk);

 private:
  struct Cell {
    std::uint64_t bytes = 0;  // 0: not seen.
    PlaceId at{};
    PlaceId really_at{};  // As far as is known: a difference is a move that no policy made.
  };
  void see_allocation(ChunkId chunk, const Snapshot& snapshot);
  PlaceId first_touch(PlaceId device, const ChunkRow& row, const Snapshot& snapshot) const;
  void put(Cell& cell, PlaceId at);

  LiveAllocations allocations_;
  std::vector<PlaceId> asked_by_;  // By number of the allocation.
  std::vector<Cell> cells_;
  std::vector<std::uint64_t> used_;  // By place.
  std::size_t changes_seen_ = 0;
};

}  // namespace vma::inline v1
