// Prints random instances, their exact optimum and their other bounds, a line of JSON each, for a
// solver that knows nothing of this code: print_instances COUNT SEED.

#include "lab/bounds/placement_bounds.hpp"
#include "unit/lab/bounds/any_instance.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace vma {
namespace {

boost::json::array moves_of(const MoveTable& table) {
  boost::json::array moves;
  for (std::size_t from = 0; from < AnyInstance::places; ++from) {
    boost::json::array row;
    for (std::size_t to = 0; to < AnyInstance::places; ++to)
      row.push_back(from == to ? 0 : table.direct(from, to));
    moves.push_back(std::move(row));
  }
  return moves;
}

boost::json::array chunks_of(const PlacementInstance& instance) {
  boost::json::array chunks;
  for (const PlacementChunk& chunk : instance.chunks) {
    boost::json::array uses, begins;
    for (std::size_t place = 0; place < instance.place_count(); ++place)
      if ((chunk.begin_places >> place & 1) != 0) begins.push_back(place);
    for (std::size_t i = 0; i < chunk.uses; ++i) {
      const auto row = instance.row(chunk.first_use + i);
      uses.push_back({{"block", instance.uses[chunk.first_use + i].block},
                      {"costs", boost::json::array(row.begin(), row.end())}});
    }
    chunks.push_back({{"bytes", chunk.bytes},
                      {"begin", chunk.begin},
                      {"end", chunk.end},
                      {"begin_places", std::move(begins)},
                      {"uses", std::move(uses)}});
  }
  return chunks;
}

boost::json::object object_of(const PlacementInstance& instance) {
  boost::json::array capacities;
  for (const std::uint64_t capacity : instance.capacities) capacities.push_back(capacity);
  boost::json::object bounds;
  for (const PlacementBounds::Row& row : placement_bounds(instance).rows)
    if (row.for_all && row.bound_s) bounds[row.name] = *row.bound_s;
  return {{"blocks", instance.blocks},     {"capacities", std::move(capacities)},
          {"floor_s", instance.floor_s},   {"moves", moves_of(instance.moves[0])},
          {"chunks", chunks_of(instance)}, {"bounds", std::move(bounds)}};
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  const auto count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const auto seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto chunks = static_cast<std::size_t>(2 + i % 5);
    const auto blocks = static_cast<std::uint32_t>(3 + i / 5 % 4);
    const auto instance = vma::in_order(seed + i, chunks, blocks);
    fmt::print("{}\n", boost::json::serialize(vma::object_of(instance)));
  }
}
