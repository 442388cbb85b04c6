#include "lab/bounds/exact_optimum.hpp"

#include "lab/bounds/chunk_walk.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace vma {
namespace {

/// The cost of each combination of the chunks' states. The state of chunk 0 varies fastest.
class JointStates {
 public:
  JointStates(const PlacementInstance& instance, std::size_t count)
      : instance_(instance),
        places_(instance.place_count()),
        states_(PathStep::states(places_)),
        step_(places_),
        costs_(count, 0),
        cells_(states_),
        lies_(places_) {
    std::size_t stride = 1;
    for (std::size_t chunk = 0; chunk < instance.chunks.size(); ++chunk, stride *= states_) {
      walks_.emplace_back(instance, chunk);
      step_.begin(instance.chunks[chunk], cells_);
      for (std::size_t i = 0; i < count; ++i) costs_[i] += cells_[i / stride % states_].cost;
    }
  }

  void advance(std::uint32_t block) {
    std::size_t stride = 1;
    for (std::size_t chunk = 0; chunk < walks_.size(); ++chunk, stride *= states_) {
      if (block < instance_.chunks[chunk].begin) continue;
      carry(instance_.moves_of(instance_.chunks[chunk]), walks_[chunk].enter(block), stride);
    }
    for (std::size_t i = 0; i < costs_.size(); ++i)
      if (costs_[i] < impossible && !fits(i, block)) costs_[i] = impossible;
  }
  double least() const { return std::ranges::min(costs_); }

 private:
  /// Advances one chunk through one block, for each combination of the others' states.
  void carry(const MoveTable& moves, const ChunkBlock& block, std::size_t stride) {
    for (std::size_t first = 0; first < costs_.size(); ++first) {
      if (first / stride % states_ != 0) continue;
      bool possible = false;
      for (std::size_t state = 0; state < states_; ++state) {
        cells_[state] = {costs_[first + state * stride], 0};
        possible |= cells_[state].cost < impossible;
      }
      if (!possible) continue;
      step_.advance(moves, block, cells_);
      for (std::size_t state = 0; state < states_; ++state)
        costs_[first + state * stride] = cells_[state].cost;
    }
  }
  bool fits(std::size_t joint, std::uint32_t block) {
    std::ranges::fill(lies_, 0);
    for (const PlacementChunk& chunk : instance_.chunks) {
      if (chunk.begin <= block && block < chunk.end) lies_[joint % places_] += chunk.bytes;
      joint /= states_;
    }
    for (std::size_t place = 0; place < places_; ++place)
      if (lies_[place] > instance_.capacities[place]) return false;
    return true;
  }

  const PlacementInstance& instance_;
  const std::size_t places_, states_;
  PathStep step_;
  std::vector<double> costs_;
  std::vector<PathCell> cells_;
  std::vector<std::uint64_t> lies_;
  std::vector<ChunkWalk> walks_;
};

}  // namespace

std::optional<double> ExactOptimum::operator()(const PlacementInstance& instance) const {
  const auto places = static_cast<double>(instance.place_count());
  std::size_t count = 1;
  for (std::size_t chunk = 0; chunk < instance.chunks.size(); ++chunk) {
    count *= PathStep::states(instance.place_count());
    if (count > states_max) return std::nullopt;
  }
  const double steps = static_cast<double>(count) * static_cast<double>(instance.chunks.size());
  if (steps * instance.blocks * places > work_max) return std::nullopt;
  JointStates joint(instance, count);
  for (std::uint32_t block = 0; block < instance.blocks; ++block) joint.advance(block);
  return instance.floor_s + joint.least();
}

}  // namespace vma
