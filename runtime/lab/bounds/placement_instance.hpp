#pragma once

#include "lab/bounds/move_table.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// What one device does with one chunk within a block: a row of the instance's `excess`.
struct PlacementUse {
  std::uint32_t chunk = 0;
  std::uint32_t block = 0;  ///< In which it comes.
  std::uint8_t device = 0;  ///< By the place of its HBM.
  bool late = false;        ///< It may begin in the block after that, too.
  friend bool operator==(const PlacementUse&, const PlacementUse&) = default;
};

/// A chunk's life. It lies somewhere at the ends of the blocks from `begin` on to before `end`.
struct PlacementChunk {
  std::uint64_t bytes = 0;
  std::uint64_t begin_places = 0;  ///< A bit a place: it may begin there, at no cost.
  std::uint32_t begin = 0, end = 0;
  std::uint32_t moves = 0;  ///< Which of the instance's `moves` are its.
  std::size_t first_use = 0, uses = 0;
  bool shared = false;  ///< Several devices use it.
};

/// A trace as a question: where should each chunk lie, and when? Time is cut into blocks. What a
/// block's uses cost depends on where their chunk lies while they happen; between the trace and the
/// replay only the order in which uses of different devices happen may differ, and by no more than
/// a block. At the end of each block no place holds more than it can. A value; who fills it keeps
/// the uses in order and their rows beside them.
struct PlacementInstance {
  static constexpr std::size_t places_max = 64;

  std::vector<Location> places;
  std::vector<std::uint64_t> capacities;  ///< By place, bytes.
  std::uint32_t blocks = 0;
  /// The trace has moved chunks itself: each has ended then, and another begun in its stead where
  /// it likes. What a plan for such chunks pays, nobody would pay for the trace.
  bool begins_anew = false;
  double floor_s = 0;  ///< What all uses take where each finds its chunk at the best place for it.
  std::vector<MoveTable> moves;
  std::vector<PlacementChunk> chunks;
  std::vector<PlacementUse> uses;  ///< By chunk, block, whether late, and device.
  std::vector<double> excess;      ///< [use][place]: seconds above what it takes at its best place.

  std::size_t place_count() const noexcept { return places.size(); }
  std::span<const PlacementUse> uses_of(const PlacementChunk& chunk) const {
    return std::span(uses).subspan(chunk.first_use, chunk.uses);
  }
  std::span<const double> row(std::size_t use) const {
    return std::span(excess).subspan(use * places.size(), places.size());
  }
  const MoveTable& moves_of(const PlacementChunk& chunk) const { return moves[chunk.moves]; }
  /// Every place, as `begin_places` has it.
  std::uint64_t all_places() const {
    return places.size() == places_max ? ~std::uint64_t{0}
                                       : (std::uint64_t{1} << places.size()) - 1;
  }

  /// Sorts the uses with their rows, adds up those that are alike, and tells each chunk which are
  /// its and whether it is shared. Requires: each use's chunk is there.
  void arrange();
};

}  // namespace vma
