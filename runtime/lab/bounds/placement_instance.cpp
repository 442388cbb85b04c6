#include "lab/bounds/placement_instance.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <utility>

namespace vma {

void PlacementInstance::arrange() {
  std::vector<std::uint32_t> order(uses.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const PlacementUse &one = uses[a], &other = uses[b];
    return std::tuple(one.chunk, one.block, one.late, one.device) <
           std::tuple(other.chunk, other.block, other.late, other.device);
  });
  std::vector<PlacementUse> sorted;
  std::vector<double> rows;
  sorted.reserve(uses.size());
  rows.reserve(excess.size());
  for (std::size_t n = 0; n < order.size(); ++n) {
    const std::span<const double> from = row(order[n]);
    if (n > 0 && uses[order[n - 1]] == uses[order[n]]) {
      const auto sum = rows.end() - static_cast<std::ptrdiff_t>(places.size());
      std::ranges::transform(from, std::span(sum, places.size()), sum, std::plus<>());
    } else {
      sorted.push_back(uses[order[n]]);
      rows.insert(rows.end(), from.begin(), from.end());
    }
  }
  uses = std::move(sorted);
  excess = std::move(rows);
  for (PlacementChunk& chunk : chunks) {
    chunk.uses = 0;
    chunk.shared = false;
  }
  for (std::size_t use = 0; use < uses.size(); ++use) {
    PlacementChunk& chunk = chunks[uses[use].chunk];
    if (chunk.uses++ == 0) chunk.first_use = use;
    chunk.shared |= uses[use].device != uses[chunk.first_use].device;
  }
}

}  // namespace vma
