#include "bench/placement/drift_load.hpp"

#include <algorithm>

namespace vma {

std::size_t DriftLoad::passes(std::size_t phase, std::size_t reader, std::size_t block) const {
  const std::size_t own = hottest(phase, reader);
  const std::size_t of_next = hottest(phase, (reader + 1) % gpus);
  const std::size_t cold = (own + gpus) % blocks;
  return (block == own ? 4u : 0u) + (block == of_next ? 1u : 0u) + (block == cold ? 1u : 0u);
}

DriftLoad drift_load(std::size_t gpus, std::uint64_t bytes_max) {
  constexpr std::uint64_t granule = std::uint64_t{2} << 20;
  constexpr std::uint64_t chunks_a_block = 16;
  DriftLoad load;
  load.gpus = gpus;
  load.blocks = 2 * gpus;
  const std::uint64_t share =
      std::clamp(bytes_max / load.blocks, 4 * granule, std::uint64_t{1} << 30);
  load.chunk_bytes = std::max(share / chunks_a_block / granule, std::uint64_t{1}) * granule;
  load.block_bytes = share / load.chunk_bytes * load.chunk_bytes;
  return load;
}

}  // namespace vma
