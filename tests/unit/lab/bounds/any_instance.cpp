#include "unit/lab/bounds/any_instance.hpp"

#include <algorithm>
#include <chrono>

namespace vma {

AnyInstance::AnyInstance(std::uint64_t seed) : random_(seed) {
  for (const PlaceId from : {gpu_0, gpu_1, host_0}) {
    for (const PlaceId to : {gpu_0, gpu_1, host_0})
      gpus_.costs.move_fixed(from, to) = std::chrono::milliseconds(below(200));
  }
  instance.places = {gpu(0), gpu(1), host(0)};
  instance.moves.emplace_back(gpus_.costs, 100);
}

void AnyInstance::chunk(std::uint32_t begin, std::uint32_t end) {
  PlacementChunk chunk;
  chunk.bytes = 100;
  chunk.begin = begin;
  chunk.end = end;
  chunk.begin_places = below(2) == 0 ? instance.all_places() : std::uint64_t{1} << below(places);
  instance.chunks.push_back(chunk);
}

void AnyInstance::use(std::uint32_t block, std::uint8_t device, bool late) {
  const double bytes = 100.0 * static_cast<double>(1 + below(4));
  PlacementUse use;
  use.chunk = static_cast<std::uint32_t>(instance.chunks.size() - 1);
  use.block = block;
  use.device = device;
  use.late = late;
  instance.uses.push_back(use);
  for (const PlaceId at : {gpu_0, gpu_1, host_0}) {
    instance.excess.push_back(gpus_.costs.access_seconds(PlaceId{device}, at, bytes) -
                              gpus_.costs.access_seconds(PlaceId{device}, PlaceId{device}, bytes));
  }
}

PlacementInstance in_order(std::uint64_t seed, std::size_t chunks, std::uint32_t blocks) {
  AnyInstance any(seed);
  any.capacities(100 + 100 * any.below(2));
  any.instance.blocks = blocks;
  for (std::size_t i = 0; i < chunks; ++i) {
    const auto begin = static_cast<std::uint32_t>(any.below(2));
    const auto end = static_cast<std::uint32_t>(begin + any.below(blocks - begin + 1));
    any.chunk(begin, end == blocks ? UINT32_MAX : end);
    for (std::uint32_t block = begin; block < std::min(end + 1, blocks); ++block)
      if (any.below(4) != 0) any.use(block, static_cast<std::uint8_t>(any.below(2)));
  }
  any.instance.arrange();
  return any.instance;
}

PlacementInstance in_any_order(std::uint64_t seed, std::size_t chunks, std::uint32_t blocks) {
  AnyInstance any(seed);
  any.capacities(100 * (1 + any.below(chunks)));
  any.instance.blocks = blocks;
  for (std::size_t i = 0; i < chunks; ++i) {
    const bool shared = any.below(2) == 0;
    const auto end = static_cast<std::uint32_t>(1 + any.below(2 * blocks));
    any.chunk(0, end >= blocks ? UINT32_MAX : end);
    any.instance.chunks.back().bytes = 60 + 20 * any.below(3);
    const auto device = static_cast<std::uint8_t>(any.below(2));
    for (std::uint32_t block = 0; block < std::min(end + 1, blocks); ++block) {
      for (std::uint64_t uses = any.below(4); uses > 0; --uses) {
        const auto other = static_cast<std::uint8_t>(shared ? any.below(2) : device);
        any.use(block, other, block + 1 < blocks && any.below(3) == 0);
      }
    }
  }
  any.instance.arrange();
  return any.instance;
}

}  // namespace vma
