#pragma once

#include "lab/bounds/chunk_walk.hpp"
#include "lab/bounds/placement_instance.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace vma {

/// The places that could overflow at the end of each block: all live chunks together would not fit
/// there. Elsewhere capacities have no effect. Immutable.
class TightRooms {
 public:
  explicit TightRooms(const PlacementInstance& instance);

  bool at(std::uint32_t block, std::size_t place) const {
    return alive_[block] > static_cast<double>(capacities_[place]);
  }
  /// Number of block ends in the chunk's life at which any place could overflow.
  std::size_t ends(const PlacementChunk& chunk) const;
  /// The first block, from `block` on, at whose end any place could overflow.
  std::optional<std::uint32_t> next(std::uint32_t block) const;

 private:
  std::vector<std::uint64_t> capacities_;
  std::vector<double> alive_;         // Per block: bytes of live chunks.
  std::vector<std::uint32_t> ends_;   // Per block: number of earlier block ends at which a place
                                      // could overflow.
  std::vector<std::uint32_t> nexts_;  // Per block: the result of `next`.
};

/// A node between two layers of a `ChunkGraph`. If the costs of steps from several states to
/// several others are sums of one part per source and one part per target, the steps go through the
/// hub: this takes one step per state instead of one per pair of states.
struct ChunkHub {
  std::vector<double> into, out;  ///< Per state, in seconds; infinite: there is no such step.

  /// Finds the hub that replaces most of `steps` ([from][to]), and removes those. Returns nothing
  /// if the hub would need more than half as many steps itself. `possible` holds all possible
  /// steps: the hub makes none of them cheaper. States that differ by `places` belong to the same
  /// place.
  static std::optional<ChunkHub> replace(std::span<const double> possible, std::span<double> steps,
                                         std::size_t places);
};

/// All useful paths of one chunk as a layered graph. There is one layer for each block in which
/// something happens to the chunk, or at whose end room could be short. Each step leads from a
/// state of `PathStep` at the end of one layer to a state at the end of the next. Borrows the
/// instance.
class ChunkGraph {
 public:
  static constexpr double never = std::numeric_limits<double>::infinity();

  ChunkGraph(const PlacementInstance& instance, const TightRooms& tight, std::size_t chunk);

  /// Removes steps that other paths replace at no higher cost and without more room, and routes
  /// groups of steps in a layer through its hub.
  void thin_out();

  std::size_t layers() const noexcept { return blocks_.size(); }
  std::size_t states() const noexcept { return states_; }
  std::uint32_t block(std::size_t layer) const { return blocks_[layer]; }
  /// In seconds; `never` if there is no such step. All steps of the first layer start at state 0.
  double cost(std::size_t layer, std::size_t from, std::size_t to) const {
    return costs_[(layer * states_ + from) * states_ + to];
  }
  /// The hub between the previous layer and this one; null if all steps are direct.
  const ChunkHub* hub(std::size_t layer) const {
    return layer < hubs_.size() && hubs_[layer] ? &*hubs_[layer] : nullptr;
  }
  /// Whether the chunk then takes room that could be short.
  bool takes_room(std::size_t layer, std::size_t state) const;

 private:
  double& way(std::size_t layer, std::size_t from, std::size_t to) {
    return costs_[(layer * states_ + from) * states_ + to];
  }
  double onwards(std::size_t layer, std::size_t from, std::size_t to) const;
  void probe(const PlacementInstance& instance, const ChunkBlock& block, PathStep& step,
             const std::vector<bool>& reached);
  void unite_alike(std::size_t layer);
  bool is_replaceable(std::size_t layer, std::size_t from, std::size_t by, std::size_t to) const;
  void delay(std::size_t layer);
  void hasten(std::size_t layer);
  void drop_dead_ends();
  void find_hubs(const std::vector<double>& possible);

  const PlacementChunk& chunk_;
  const TightRooms& tight_;
  const std::size_t places_, states_;
  std::vector<std::uint32_t> blocks_;          // Per layer.
  std::vector<double> costs_;                  // [layer][from][to]
  std::vector<std::optional<ChunkHub>> hubs_;  // Per layer.
};

}  // namespace vma
