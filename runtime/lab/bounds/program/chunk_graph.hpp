#pragma once

#include "lab/bounds/path_step.hpp"
#include "lab/bounds/placement_instance.hpp"
#include "lab/bounds/program/chunk_hub.hpp"
#include "lab/bounds/program/tight_rooms.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace vma {

/// All useful paths of one chunk as a layered graph: one layer for each block in which something
/// happens to it, or at whose end room could be short. From each state of `PathStep` at the end of
/// one layer, a chunk goes to one at the end of the next. Borrows the instance.
class ChunkGraph {
 public:
  static constexpr double never = std::numeric_limits<double>::infinity();

  ChunkGraph(const PlacementInstance& instance, const TightRooms& tight, std::size_t chunk);

  /// Removes steps that another path replaces at no higher cost and no more room, and routes many
  /// steps of a layer through its hub.
  void thin_out();

  std::size_t layers() const noexcept { return blocks_.size(); }
  std::size_t states() const noexcept { return states_; }
  std::uint32_t block(std::size_t layer) const { return blocks_[layer]; }
  /// Seconds; `never` if there is no such step. In the first layer all steps start at state 0.
  double cost(std::size_t layer, std::size_t from, std::size_t to) const {
    return costs_[(layer * states_ + from) * states_ + to];
  }
  /// Between the layer before and this one; null: there are only direct steps.
  const ChunkHub* hub(std::size_t layer) const {
    return layer < hubs_.size() && hubs_[layer] ? &*hubs_[layer] : nullptr;
  }
  /// Whether the chunk takes room there that could be short.
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
  std::vector<std::uint32_t> blocks_;          // By layer.
  std::vector<double> costs_;                  // [layer][from][to]
  std::vector<std::optional<ChunkHub>> hubs_;  // By layer.
};

}  // namespace vma
