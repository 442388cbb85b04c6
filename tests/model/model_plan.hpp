#pragma once

#include "model/planted_bug.hpp"

#include <vma/location.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace vma {

enum class Operation {
  alloc,
  free,
  free_async,
  migrate,
  migrate_range,
  write,
  check,
  kernel,
  host_view,
  reserve,
  trim,
  misuse,
};
constexpr int operation_kinds = static_cast<int>(Operation::misuse) + 1;

/// One play: all of it follows from these, but for the order of threads of the operating system.
struct ModelPlan {
  std::uint64_t seed = 1;
  std::string machine = "test-2";
  int users = 1;
  /// Threads of the operating system instead of steps.
  bool threaded = false;
  /// Of all users together.
  int operations = 1000;
  std::optional<Bug> bug;
};

/// "seed 7, test-2, 3 users, stepped, 1000 operations": what replays a play.
std::string describe(const ModelPlan& plan);

/// What a plan's seed draws for the whole play.
struct Draw {
  Draw(const ModelPlan& plan, const std::vector<Location>& locations);

  /// How likely each operation is; some are zero.
  std::array<unsigned, operation_kinds> weights{};
  std::map<Location, std::uint64_t> capacity_bytes;
  std::uint64_t cache_bytes = 0;
  std::uint64_t host_cache_bytes = 0;
  /// The most granules of an allocation.
  unsigned granules_max = 8;
  /// The most allocations of all users together.
  unsigned allocations_max = 24;
  /// The runtime comes to rest before it is checked after each step; otherwise its own threads
  /// go on from one step into the next, and it comes to rest after some.
  bool rests = true;
};

/// A number below `end`.
template <typename Random>
std::uint64_t below(Random& random, std::uint64_t end) {
  return random() % end;
}

}  // namespace vma
