#pragma once

#include "lab/bounds/chunk_walk.hpp"
#include "lab/bounds/placement_instance.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// The cheapest path of each chunk alone, with prices for room that apply only at the ends of
/// epochs. Without prices the sum is a bound for all policies, whenever they act.
class CheapestPaths {
 public:
  CheapestPaths(const PlacementInstance& instance, const EpochGrid& grid);

  /// Returns seconds, including prices and floor. `prices` are [epoch][place] in seconds per byte;
  /// `used` receives the bytes at each place, in the same order.
  double operator()(std::span<const double> prices, std::vector<double>& used);

  /// Number of blocks that `operator()` has processed.
  std::uint64_t blocks_done() const noexcept { return blocks_done_; }

 private:
  double walk(std::size_t chunk, std::span<const double> prices);
  void trace_back(const PlacementChunk& chunk, std::span<const PathCell> cells,
                  std::vector<double>& used);
  void lies(const PlacementChunk& chunk, std::size_t place, std::int64_t from, std::int64_t to,
            std::vector<double>& used) const;

  const PlacementInstance& instance_;
  const EpochGrid grid_;
  const std::size_t places_, states_;
  PathStep step_;
  std::size_t roomiest_ = 0;                // For chunks that cost the same everywhere.
  std::vector<std::uint32_t> next_priced_;  // Per epoch: the first one with a price from there on.
  std::vector<PathCell> cells_;
  std::vector<std::uint32_t> blocks_;  // Blocks of the current chunk in which it may have moved.
  std::vector<std::uint8_t> origins_;  // Per block and state: the state before.
  std::uint64_t blocks_done_ = 0;
};

}  // namespace vma
