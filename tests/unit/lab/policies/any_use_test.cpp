// Goal: whatever is used, hinted, freed and pinned, plans can be carried out as given, and steady
// use comes to rest. Method: random operations from a seed on a nearly full machine; the rig
// rejects a move without room, reason or route, or of a chunk that may not move.
#include "lab/policies/lab_policies.hpp"
#include "placement/auto/auto.hpp"
#include "placement/policies/built_in_policies.hpp"

#include "support/test_run.hpp"
#include "unit/placement/policies/policy_rig.hpp"

#include <random>

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t MB = 1'000'000;
constexpr std::size_t gpus = 3;

class AnyUse : public testing::TestWithParam<std::tuple<int, unsigned>> {
 protected:
  static PolicyKind kind() {
    static constexpr PolicyKind (*kinds[])() = {counter_kind,         coin_flip_kind,
                                                cost_benefit_kind,    histogram_fill_kind,
                                                latency_balance_kind, lifetime_class_kind};
    return kinds[std::get<0>(GetParam())]();
  }
  ChunkId any() { return next(first_[random_() % first_.size()], random_() % 4); }
  PlaceId any_gpu() { return gpu_place(random_() % gpus); }
  void allocate() { first_.push_back(rig_.request(256 * MB, 64 * MB, any_gpu())); }
  void operate();

  std::mt19937 random_{std::get<1>(GetParam())};
  PolicyRig rig_{kind(), PolicyMachine::h200(gpus, 1000 * MB, 20000 * MB)};
  std::vector<ChunkId> first_;
};

void AnyUse::operate() {
  const ChunkId chunk = any();
  ChunkRow& row = rig_.tables().row(chunk);
  switch (random_() % 12) {
    case 0: row.movable = !row.movable; break;
    case 1: row.parked = !row.parked; break;
    case 2: rig_.apply(rig_.press({any_gpu(), random_() % 200 * MB, any_gpu()})); break;
    case 3: {
      Hint hint;
      hint.device = gpu(static_cast<int>(random_() % gpus));
      hint.passes = static_cast<double>(random_() % 100);
      if (random_() % 2 == 0) hint.next_use = std::chrono::milliseconds(random_() % 8000);
      if (random_() % 2 == 0) hint.until = std::chrono::milliseconds(random_() % 8000);
      rig_.apply(rig_.advise(chunk, hint));
      break;
    }
    case 4: {
      const std::size_t which = random_() % first_.size();
      rig_.free(first_[which]);
      first_.erase(first_.begin() + static_cast<std::ptrdiff_t>(which));
      allocate();
      break;
    }
    case 5: rig_.apply(rig_.tick()); break;
    case 6: rig_.advance(std::chrono::milliseconds(random_() % 300)); break;
    default:
      rig_.use_and_apply(chunk, any_gpu(), static_cast<double>(random_() % 1000 * MB),
                         static_cast<double>(random_() % 100 * MB));
  }
}

TEST_P(AnyUse, PlansCanBeMadeAndSteadyUseEndsInRest) {
  SCOPED_TRACE(kind().name + ", seed " + std::to_string(std::get<1>(GetParam())));
  for (int i = 0; i < 15; ++i) allocate();
  for (int i = 0; i < 3000 && !HasFailure(); ++i) operate();
  rig_.tables().check_invariants();
  if (kind().name == "coin_flip") return;  // It never rests if GPUs share a chunk.
  std::vector<std::pair<PlaceId, double>> steady;
  for (int i = 0; i < 60; ++i) steady.emplace_back(any_gpu(), random_() % 100 * MB);
  const auto feed = [&] {
    for (std::size_t i = 0; i < 60; ++i)
      rig_.use_and_apply(next(first_[i / 4], i % 4), steady[i].first, steady[i].second);
  };
  rig_.run(60s, feed);
  const std::size_t made = rig_.made().size();
  rig_.run(30s, feed);
  EXPECT_EQ(rig_.made().size(), made);
}

INSTANTIATE_TEST_SUITE_P(Policies, AnyUse,
                         testing::Combine(testing::Range(0, 6),
                                          testing::Range(1u, 1u + sampled(5))));

}  // namespace
}  // namespace v1
}  // namespace vma
