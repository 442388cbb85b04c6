#pragma once

#include "model/planted_bug.hpp"
#include "support/test_run.hpp"

#include <vma/place.hpp>

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
  migrate_group,
  write,
  check,
  kernel,
  host_view,
  reserve,
  trim,
  misuse,
};
constexpr int operation_kinds = static_cast<int>(Operation::misuse) + 1;

/// One play. It is determined by these values, except for the order of operating system threads.
struct ModelPlan {
  std::uint64_t seed = 1;
  std::string machine = "test-2";
  int users = 1;
  /// Operating system threads instead of steps.
  bool threaded = false;
  /// Of all users together.
  int operations = 1000;
  std::optional<Bug> bug;

  /// Whether moves suspend the program's work and wait for none of it; otherwise they hold it.
  bool suspends() const { return play_suspends(seed); }
};

/// "seed 7, test-2, 3 users, stepped, suspending, 1000 operations": all that is needed to replay a
/// play.
std::string describe(const ModelPlan& plan);

/// What the seed of a plan determines for the whole play.
struct Draw {
  Draw(const ModelPlan& plan, const std::vector<Place>& places);

  /// The relative frequency of each operation; some are zero.
  std::array<unsigned, operation_kinds> weights{};
  std::map<Place, std::uint64_t> capacity_bytes;
  std::uint64_t cache_bytes = 0;
  std::uint64_t host_cache_bytes = 0;
  /// Largest size of an allocation, in granules.
  unsigned granules_max = 8;
  /// Largest number of allocations of all users together.
  unsigned allocations_max = 24;
  /// Whether the runtime comes to rest before the check after each step. Otherwise its threads
  /// continue from one step into the next, and it comes to rest only after some steps.
  bool rests = true;
  /// Copies never run in contexts of the program.
  bool own_contexts = false;
};

/// A number below `end`.
template <typename Random>
std::uint64_t below(Random& random, std::uint64_t end) {
  return random() % end;
}

}  // namespace vma
