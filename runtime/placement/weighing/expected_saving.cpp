#include "placement/weighing/expected_saving.hpp"

#include "base/units.hpp"
#include "placement/weighing/chunk_worth.hpp"

#include <algorithm>
#include <cmath>

namespace vma::inline v1 {

double expected_saving(const Snapshot& snapshot, ChunkId chunk, PlaceId to) {
  const ChunkRow& row = snapshot.chunk(chunk);
  const double saved =
      snapshot.access_load_short(chunk, row.at) - snapshot.access_load_short(chunk, to);
  const double cost = in_seconds(snapshot.costs().move_time(row.at, to, row.bytes));
  // A use that has faded away may be of a GPU that reaches neither: then the saving is unknown.
  return std::isfinite(saved) ? std::max(0.0, saved * in_seconds(expected_use) - cost) : 0;
}

}  // namespace vma::inline v1
