#pragma once

#include "lab/bounds/placement_instance.hpp"
#include "unit/lab/replay/two_gpus.hpp"

#include <cstddef>
#include <cstdint>
#include <random>

namespace vma {

/// Builds instances on two GPUs and a host, with chunks of 100 bytes.
class AnyInstance {
 public:
  static constexpr std::size_t places = 3;

  explicit AnyInstance(std::uint64_t seed);

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  void capacities(std::uint64_t hbm) { instance.capacities = {hbm, hbm, 1000}; }
  void chunk(std::uint32_t begin, std::uint32_t end);
  /// Adds a use of the chunk added last, of a random amount.
  void use(std::uint32_t block, std::uint8_t device, bool late = false);

  PlacementInstance instance;

 private:
  std::mt19937_64 random_;
  TwoGpus gpus_;
};

/// At most one use of each chunk in each block, never late.
PlacementInstance in_order(std::uint64_t seed, std::size_t chunks, std::uint32_t blocks);
/// Several uses of each chunk in each block, by one device or two, some of them late. Chunks have
/// 60 to 100 bytes, and moves cost as with 100.
PlacementInstance in_any_order(std::uint64_t seed, std::size_t chunks, std::uint32_t blocks);

}  // namespace vma
