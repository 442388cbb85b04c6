#pragma once

#include "lab/bounds/move_table.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

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

  std::vector<Location> places;
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

}  // namespace vma
