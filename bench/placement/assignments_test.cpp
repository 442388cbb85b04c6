// Goal: in each phase the drifting load has one best placement, with each block on the GPU that
// reads it most, and the predicted rate of a program whose GPUs run in lockstep finds it. Method:
// machines like H200s, where a GPU reads eleven times as fast from its own HBM as from a peer's.
#include "bench/placement/assignments.hpp"

#include "bench/placement/drift_load.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace vma {
namespace {

constexpr double own = 4200e9, peer = 380e9;

MachineCosts costs_of(std::size_t gpus) {
  MachineCosts costs(gpus, gpus);
  for (std::uint8_t device = 0; device < gpus; ++device) {
    for (std::uint8_t at = 0; at < gpus; ++at)
      costs.access_rate(PlaceId{device}, PlaceId{at}) = device == at ? own : peer;
  }
  return costs;
}

/// The reader that reads the block most. Fails the test if two do.
std::size_t reader_of(const DriftLoad& load, std::size_t phase, std::size_t block) {
  std::vector<std::size_t> passes;
  for (std::size_t reader = 0; reader < load.gpus; ++reader)
    passes.push_back(load.passes(phase, reader, block));
  const auto most = std::ranges::max_element(passes);
  EXPECT_GT(*most, 0u) << "nobody reads block " << block;
  EXPECT_EQ(std::ranges::count(passes, *most), 1)
      << "block " << block << ", phase " << phase << ", " << load.gpus << " GPUs";
  return static_cast<std::size_t>(most - passes.begin());
}

class Drift : public testing::TestWithParam<std::size_t> {};

TEST_P(Drift, EachBlockHasOneReaderThatReadsItMost) {
  const DriftLoad load = drift_load(GetParam(), 0);
  for (std::size_t phase = 0; phase < load.gpus; ++phase) {
    for (std::size_t block = 0; block < load.blocks; ++block) reader_of(load, phase, block);
  }
}

TEST_P(Drift, EachReaderReadsSixBlocksAStep) {
  const DriftLoad load = drift_load(GetParam(), 0);
  for (std::size_t phase = 0; phase < load.gpus; ++phase) {
    for (std::size_t reader = 0; reader < load.gpus; ++reader) {
      std::size_t passes = 0;
      for (std::size_t block = 0; block < load.blocks; ++block)
        passes += load.passes(phase, reader, block);
      EXPECT_EQ(passes, 6u);
    }
  }
}

TEST_P(Drift, TheBestPlacementIsByUseAndStandsAlone) {
  const DriftLoad load = drift_load(GetParam(), 0);
  const MachineCosts costs = costs_of(load.gpus);
  for (std::size_t phase = 0; phase < load.gpus; ++phase) {
    SCOPED_TRACE(phase);
    const Readings readings = readings_of(load, phase);
    const BestAssignments found =
        best_assignments(readings, load.gpus, load.blocks, costs, 2, phase + 1);
    EXPECT_TRUE(found.every_one);
    Assignment by_use;
    for (std::size_t block = 0; block < load.blocks; ++block)
      by_use.push_back(reader_of(load, phase, block));
    EXPECT_EQ(found.best.at(0), by_use);
    EXPECT_LT(foretold_rate(readings, found.best.at(1), costs),
              0.7 * foretold_rate(readings, by_use, costs));
  }
}

INSTANTIATE_TEST_SUITE_P(Gpus, Drift, testing::Values(2, 4));

TEST(ForetoldRate, IsAStepsBytesOverTheTimeOfItsSlowestReader) {
  const Readings readings{{{10.0, 20.0}, {0.0, 30.0}}};
  const MachineCosts costs = costs_of(2);
  EXPECT_DOUBLE_EQ(foretold_rate(readings, {0, 1}, costs), 60 / (10 / own + 20 / peer));
  EXPECT_DOUBLE_EQ(foretold_rate(readings, {0, 0}, costs), 60 / (30 / peer));
}

TEST(ForetoldRate, GainsNothingFromAGpuThatStarves) {
  const Readings readings{{{10.0, 10.0}, {10.0, 10.0}}};
  const MachineCosts costs = costs_of(2);
  EXPECT_GT(foretold_rate(readings, {0, 1}, costs), foretold_rate(readings, {0, 0}, costs));
}

}  // namespace
}  // namespace vma
