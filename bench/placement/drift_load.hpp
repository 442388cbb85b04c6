#pragma once

#include <cstddef>
#include <cstdint>

namespace vma {

/// An array with two blocks per GPU, and how much of each block each GPU reads in which phase. The
/// runtime and its rivals get the same load.
struct DriftLoad {
  std::size_t gpus = 0, blocks = 0;
  std::uint64_t block_bytes = 0, chunk_bytes = 0;

  std::uint64_t bytes() const { return blocks * block_bytes; }
  std::size_t hottest(std::size_t phase, std::size_t reader) const {
    return (reader + phase) % blocks;
  }
  /// A reader's passes over a block in one step: four over its hottest block, one over the next
  /// reader's hottest and one over a cold block that no other reader reads. So in each phase, each
  /// block has one reader that reads it most. Requires: at least two GPUs.
  std::size_t passes(std::size_t phase, std::size_t reader, std::size_t block) const;
  /// The GPU that touches a block first.
  std::size_t first_touch(std::size_t block) const { return block % gpus; }
};

/// Blocks of at most 1 GiB, `bytes_max` in total unless that is less than 8 MiB each.
DriftLoad drift_load(std::size_t gpus, std::uint64_t bytes_max);

}  // namespace vma
