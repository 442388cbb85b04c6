#include "model/model_plan.hpp"

#include <fmt/format.h>

namespace vma {
namespace {

constexpr std::uint64_t granule = 4096;  // Of the test machines.

}  // namespace

std::string describe(const ModelPlan& plan) {
  return fmt::format("seed {}, {}, {} users, {}, {}, {} operations", plan.seed, plan.machine,
                     plan.users, plan.threaded ? "threaded" : "stepped",
                     plan.suspends() ? "suspending" : "holding", plan.operations);
}

Draw::Draw(const ModelPlan& plan, const std::vector<Place>& places) {
  constexpr std::array<unsigned, operation_kinds> usual = {8, 3, 3, 8, 8, 5, 5, 6, 8, 3, 1, 1, 1};
  std::mt19937_64 random(plan.seed);
  for (std::size_t kind = 0; kind < weights.size(); ++kind) {
    const bool never = kind != 0 && below(random, 6) == 0;
    weights[kind] = never ? 0 : usual[kind] * (1 + static_cast<unsigned>(below(random, 3)));
  }
  granules_max = below(random, 4) == 0 ? 48 : 8;
  allocations_max = 8 + static_cast<unsigned>(below(random, 25));
  const std::uint64_t room = granules_max * allocations_max / 4;
  for (const Place at : places) {
    if (below(random, 3) == 0) continue;  // No cap: the machine's own 64 MiB, which no play fills.
    capacity_bytes[at] = granule * (8 + granules_max + below(random, room + 1));
  }
  cache_bytes = granule * below(random, 3) * granules_max;
  host_cache_bytes = granule * below(random, 3) * granules_max;
  rests = below(random, 2) == 0;
  own_contexts = below(random, 3) == 0;
}

}  // namespace vma
