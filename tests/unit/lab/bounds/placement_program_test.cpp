// Goal: the written program can be read back, and its optimum by exhaustive search equals that of
// `ExactOptimum` and is never below the bounds.

#include "lab/bounds/chunk_walk.hpp"
#include "lab/bounds/exact_optimum.hpp"
#include "lab/bounds/placement_bounds.hpp"
#include "lab/bounds/program/linear_program.hpp"
#include "lab/bounds/program/placement_program.hpp"
#include "support/test_run.hpp"
#include "unit/lab/bounds/any_instance.hpp"
#include "unit/lab/bounds/lp_text.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

class Program : public testing::Test {
 protected:
  LpText written(const PlacementInstance& instance) {
    write_lp(PlacementProgram()(instance), path(), "a test", "microseconds");
    return LpText(path());
  }
  std::string path() const { return folder_ / "program.lp"; }

 private:
  TemporaryFolder folder_;
};

std::vector<PathCell> some_cells(std::size_t states, std::mt19937_64& random) {
  std::vector<PathCell> cells(states);
  for (PathCell& cell : cells)
    cell.cost = random() % 4 == 0 ? never : static_cast<double>(random() % 1000) / 100;
  return cells;
}

TEST(PathStep, CostsFromAllStatesWhatItCostsFromTheBestOfThem) {
  const std::size_t states = PathStep::states(AnyInstance::places);
  std::mt19937_64 random(run_seed());
  for (std::uint64_t seed = run_seed(); seed < run_seed() + 200; ++seed) {
    const PlacementInstance instance = in_any_order(seed, 1, 4);
    PathStep step(AnyInstance::places);
    ChunkWalk walk(instance, 0);
    for (std::uint32_t block = 0; block < instance.blocks; ++block) {
      if (block < walk.next().value_or(block) && random() % 2 == 0) continue;
      const ChunkBlock& happens = walk.enter(block);
      const std::vector<PathCell> before = some_cells(states, random);
      std::vector<PathCell> together = before;
      step.advance(instance.moves[0], happens, together);
      std::vector<double> apart(states, never);
      for (std::size_t from = 0; from < states; ++from) {
        std::vector<PathCell> alone(states, PathCell{never, 0});
        alone[from].cost = 0;
        step.advance(instance.moves[0], happens, alone);
        for (std::size_t to = 0; to < states; ++to)
          apart[to] = std::min(apart[to], before[from].cost + alone[to].cost);
      }
      for (std::size_t to = 0; to < states; ++to) {
        if (apart[to] == never) {
          EXPECT_EQ(together[to].cost, never) << "seed " << seed;
        } else {
          EXPECT_NEAR(together[to].cost, apart[to], 1e-9) << "seed " << seed;
        }
      }
    }
  }
}

/// Returns how many instances cost more because of limited room.
template <typename Make>
std::size_t compare(Make&& make, std::uint64_t instances,
                    const std::function<LpText(const PlacementInstance&)>& written) {
  std::size_t contended = 0;
  for (std::uint64_t seed = run_seed(); seed < run_seed() + instances; ++seed) {
    const PlacementInstance instance = make(seed);
    const double exact = ExactOptimum()(instance).value_or(-1);
    const LpText text = written(instance);
    const double least = text.least() / 1e6;
    if (std::isfinite(exact)) {
      EXPECT_NEAR(least, exact, 1e-9 * (1 + exact)) << "seed " << seed;
      PlacementInstance roomy = instance;
      roomy.capacities.assign(AnyInstance::places, 10'000);
      contended += *ExactOptimum()(roomy) < exact - 1e-9 ? 1 : 0;
    } else {
      EXPECT_EQ(least, never) << "seed " << seed;
    }
    EXPECT_EQ(text.binaries + 1, text.variables.size());
    for (const PlacementBounds::Row& row : placement_bounds(instance).rows) {
      if (row.bound_s && row.for_all) {
        EXPECT_LE(*row.bound_s, least + 1e-9) << "seed " << seed << " " << row.name;
      }
      if (row.plan_s) {
        EXPECT_GE(*row.plan_s, least - 1e-9) << "seed " << seed << " " << row.name;
      }
    }
    if (testing::Test::HasFailure()) break;
  }
  return contended;
}

TEST_F(Program, HasTheExactOptimumOfUsesInOrder) {
  const auto write = [&](const PlacementInstance& instance) { return written(instance); };
  EXPECT_GT(compare([](std::uint64_t seed) { return in_order(seed, 2, 4); }, 150, write), 2u);
  EXPECT_GT(compare([](std::uint64_t seed) { return in_order(seed, 3, 3); }, 60, write), 2u);
}

TEST_F(Program, HasTheExactOptimumOfLateAndSharedUses) {
  const auto write = [&](const PlacementInstance& instance) { return written(instance); };
  EXPECT_GT(compare([](std::uint64_t seed) { return in_any_order(seed, 2, 4); }, 200, write), 20u);
  EXPECT_GT(compare([](std::uint64_t seed) { return in_any_order(seed, 3, 3); }, 60, write), 2u);
}

TEST_F(Program, IsAConstantWhereThereIsRoomForAll) {
  PlacementInstance instance = in_any_order(run_seed(), 4, 6);
  instance.capacities = {1000, 1000, 1000};
  const LpText text = written(instance);
  EXPECT_EQ(text.binaries, 0u);
  EXPECT_EQ(text.sum_name, "microseconds");
  EXPECT_NEAR(text.least() / 1e6, *ExactOptimum()(instance), 1e-9);
}

/// Chunks of these sizes, which one GPU with `hbm` bytes uses in turn.
PlacementInstance in_turn(const std::vector<std::uint64_t>& bytes, std::uint64_t hbm) {
  AnyInstance any(7);
  any.instance.blocks = 4;
  any.instance.capacities = {hbm, hbm, std::uint64_t{1} << 50};
  for (const std::uint64_t size : bytes) {
    any.chunk(0, UINT32_MAX);
    any.instance.chunks.back().bytes = size;
    any.instance.chunks.back().begin_places = any.instance.all_places();
    for (std::uint32_t block = 0; block < 4; ++block) any.use(block, 0);
  }
  any.instance.arrange();
  return any.instance;
}

/// The largest factor and the limit of each capacity row.
std::pair<std::vector<double>, std::vector<double>> room_of(const LpText& text) {
  std::vector<double> largest, limits;
  for (const LpText::Row& row : text.rows) {
    if (!row.name.starts_with("room_")) continue;
    EXPECT_FALSE(row.equal);
    double factor = 0;
    for (const LpText::Term& term : row.terms) factor = std::max(factor, term.factor);
    largest.push_back(factor);
    limits.push_back(row.limit);
  }
  return {largest, limits};
}

TEST_F(Program, CountsRoomInUnitsThatSolversCanTell) {
  const std::uint64_t mib = std::uint64_t{1} << 20;
  const auto [whole, wholes] = room_of(written(in_turn({32 * mib, 48 * mib}, 79 * mib)));
  ASSERT_FALSE(whole.empty());
  for (const double factor : whole) EXPECT_TRUE(factor == 3 || factor == 2 || factor == 1);
  for (const double limit : wholes) EXPECT_TRUE(limit == 4 || limit == 2 || limit == 1) << limit;
  const auto [odd, limits] = room_of(written(in_turn({32 * mib, 48 * mib + 1}, 79 * mib)));
  ASSERT_FALSE(odd.empty());
  for (const double factor : odd) EXPECT_LE(factor, 10'000);
  EXPECT_NEAR(limits[0] / odd[0], 79.0 / 48, 1e-6);
}

TEST_F(Program, RefusesWhatIsTooLarge) {
  PlacementProgram few, short_work;
  few.steps_max = 5;
  short_work.work_max = 500;
  const PlacementInstance instance = in_turn({100, 100}, 100);
  EXPECT_NE(error_of([&] { few(instance); }).find("more than 5 variables"), std::string::npos);
  EXPECT_NE(error_of([&] { short_work(instance); }).find("too large"), std::string::npos);
  EXPECT_EQ(error_of([&] { PlacementProgram()(instance); }), "");
}

TEST_F(Program, LeavesNoHalfOfAFile) {
  const LinearProgram program = PlacementProgram()(in_turn({100, 100}, 100));
  const std::string nowhere = path() + "/none/program.lp";
  const std::string error = error_of([&] { write_lp(program, nowhere, "a test", "seconds"); });
  EXPECT_NE(error.find(nowhere), std::string::npos) << error;
  if (!std::filesystem::exists("/dev/full")) return;
  std::filesystem::create_symlink("/dev/full", path());
  EXPECT_NE(error_of([&] { write_lp(program, path(), "a test", "seconds"); }).find("No space"),
            std::string::npos);
  EXPECT_TRUE(std::filesystem::is_symlink(path())) << "a device is not replaced";
}

}  // namespace
}  // namespace vma
