#pragma once

#include <vma/snapshot.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace vma {

/// The cost of an impossible choice.
inline constexpr double impossible = std::numeric_limits<double>::infinity();

/// The cost in seconds of moving a chunk of one size between places; infinite if there is no path.
/// Immutable.
class MoveTable {
 public:
  MoveTable(const MachineCosts& costs, std::uint64_t bytes);

  /// By a single move.
  double direct(std::size_t from, std::size_t to) const { return direct_[from * places_ + to]; }
  /// By any number of moves; 0 from a place to itself.
  double shortest(std::size_t from, std::size_t to) const { return shortest_[from * places_ + to]; }
  /// The cheapest single move that ends there.
  double into(std::size_t place) const { return into_[place]; }
  /// To the cheapest other place and back.
  double round_trip(std::size_t place) const { return round_trip_[place]; }
  /// The cheapest single move of all.
  double cheapest() const noexcept { return cheapest_; }

 private:
  std::size_t places_;
  std::vector<double> direct_, shortest_, into_, round_trip_;
  double cheapest_;
};

/// One device's use of one chunk within a block: a row of the instance's `excess`.
struct PlacementUse {
  std::uint32_t chunk = 0;
  std::uint32_t block = 0;  ///< The block in which it arrives.
  std::uint8_t device = 0;  ///< Index of the place that is its HBM.
  bool late = false;        ///< It may also begin in the next block.
  friend bool operator==(const PlacementUse&, const PlacementUse&) = default;
};

/// A chunk's life: it exists at the ends of the blocks in [`begin`, `end`).
struct PlacementChunk {
  std::uint64_t bytes = 0;
  std::uint64_t begin_places = 0;  ///< One bit per place where it may begin at no cost.
  std::uint32_t begin = 0, end = 0;
  std::uint32_t moves = 0;  ///< Index into the instance's `moves`.
  std::size_t first_use = 0, uses = 0;
  bool shared = false;  ///< Several devices use it.
};

/// A trace as an optimisation problem: where should each chunk be, and when? Time is divided into
/// blocks. The cost of a use depends on the place of its chunk at that time. Compared with a
/// replay, the order of uses may differ only between devices, by at most one block. At the end of
/// each block every place is within its capacity. A plain value: the code that fills it keeps the
/// uses sorted and their rows in the same order.
struct PlacementInstance {
  static constexpr std::size_t places_max = 64;

  std::vector<Place> places;
  std::vector<std::uint64_t> capacities;  ///< In bytes, per place.
  std::uint32_t blocks = 0;
  /// The trace itself moved chunks: each of these ended then, and a new chunk began, at any place.
  /// A plan for such an instance is not a plan for the trace.
  bool begins_anew = false;
  double floor_s = 0;  ///< The cost of all uses at their best places.
  std::vector<MoveTable> moves;
  std::vector<PlacementChunk> chunks;
  std::vector<PlacementUse> uses;  ///< Sorted by chunk, block, lateness and device.
  std::vector<double> excess;      ///< [use][place]: seconds in excess of its best place.

  std::size_t place_count() const noexcept { return places.size(); }
  std::span<const PlacementUse> uses_of(const PlacementChunk& chunk) const {
    return std::span(uses).subspan(chunk.first_use, chunk.uses);
  }
  std::span<const double> row(std::size_t use) const {
    return std::span(excess).subspan(use * places.size(), places.size());
  }
  const MoveTable& moves_of(const PlacementChunk& chunk) const { return moves[chunk.moves]; }
  /// All places, in the format of `begin_places`.
  std::uint64_t all_places() const {
    return places.size() == places_max ? ~std::uint64_t{0}
                                       : (std::uint64_t{1} << places.size()) - 1;
  }

  /// Sorts the uses and their rows, merges equal uses, and records for each chunk its uses and
  /// whether it is shared. Requires: the chunk of each use exists.
  void arrange();
};

/// Divides time into epochs with equal numbers of blocks; the last may be shorter. Plans move
/// chunks between epochs, and prices apply at their ends.
struct EpochGrid {
  std::uint32_t blocks = 1;  ///< Per epoch.
  std::uint32_t epochs = 0;

  EpochGrid() = default;
  EpochGrid(const PlacementInstance& instance, std::uint32_t epoch_blocks)
      : blocks(epoch_blocks), epochs((instance.blocks - 1) / epoch_blocks + 1) {}

  std::uint32_t of(std::uint32_t block) const { return block / blocks; }
  /// The last block of the epoch; for the last epoch it may be beyond the end of the trace.
  std::uint32_t last_block(std::uint32_t epoch) const { return (epoch + 1) * blocks - 1; }
  /// The chunk exists at the ends of the epochs in [`first_end`, `end`).
  std::uint32_t first_end(const PlacementChunk& chunk) const { return of(chunk.begin); }
  std::uint32_t end(const PlacementChunk& chunk) const { return std::min(of(chunk.end), epochs); }
  /// Number of epochs in the chunk's life, including the one of its last use.
  std::uint32_t life(const PlacementInstance& instance, const PlacementChunk& chunk) const {
    std::uint32_t last = std::min(chunk.end, instance.blocks - 1);
    if (chunk.uses > 0) last = std::max(last, instance.uses_of(chunk).back().block);
    return of(last) - of(chunk.begin) + 1;
  }
};

}  // namespace vma
