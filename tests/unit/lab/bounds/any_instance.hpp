#pragma once

#include "lab/bounds/placement_instance.hpp"
#include "unit/lab/replay/two_gpus.hpp"

#include <cstddef>
#include <cstdint>
#include <random>

namespace vma {

/// Instances on two GPUs and a host, of chunks of 100 bytes.
class AnyInstance {
 public:
  static constexpr std::size_t places = 3;

  explicit AnyInstance(std::uint64_t seed);

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  void capacities(std::uint64_t hbm) { instance.capacities = {hbm, hbm, 1000}; }
  void chunk(std::uint32_t begin, std::uint32_t end);
  /// Of the chunk that was added last, as much as seems good.
  void use(std::uint32_t block, std::uint8_t device, bool late = false);

  PlacementInstance instance;

 private:
  std::mt19937_64 random_;
  TwoGpus gpus_;
};

/// At most one use of each chunk in each block, when it comes.
PlacementInstance in_order(std::uint64_t seed, std::size_t chunks, std::uint32_t blocks);
/// Several uses of each chunk in each block, by one device or two, some of them late; chunks of 60
/// to 100 bytes, which move as those of 100 do.
PlacementInstance in_any_order(std::uint64_t seed, std::size_t chunks, std::uint32_t blocks);

}  // namespace vma
