// Goal: the exact optimum equals that of an exhaustive search; the bound of one chunk never exceeds
// the cost of any allowed order of uses and moves; and each bound lies between the weaker ones and
// the plans.

#include "lab/bounds/best_static.hpp"
#include "lab/bounds/capacity_prices.hpp"
#include "lab/bounds/cheapest_paths.hpp"
#include "lab/bounds/exact_optimum.hpp"
#include "lab/bounds/placement_bounds.hpp"
#include "support/test_run.hpp"
#include "unit/lab/bounds/any_instance.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace vma {
namespace {

constexpr double infinite_s = std::numeric_limits<double>::infinity();
constexpr std::size_t places = AnyInstance::places;

/// Finds the lowest cost by exhaustive search: in each block, each chunk moves to where it is used,
/// and from there to where it ends.
class EveryWay {
 public:
  explicit EveryWay(const PlacementInstance& instance) : instance_(instance) {}

  double run() {
    at_.assign(instance_.chunks.size(), places);
    go_on(0, 0, 0);
    return best_;
  }

 private:
  void go_on(std::uint32_t block, std::size_t number, double cost) {
    if (cost >= best_) return;
    if (number == instance_.chunks.size()) {
      if (!fits(block)) return;
      if (block + 1 == instance_.blocks) {
        best_ = cost;
      } else {
        go_on(block + 1, 0, cost);
      }
      return;
    }
    const PlacementChunk& chunk = instance_.chunks[number];
    if (block < chunk.begin) return go_on(block, number + 1, cost);
    const std::size_t came_from = at_[number];
    for (std::size_t from = 0; from < places; ++from) {
      const bool begins = came_from == places && (chunk.begin_places >> from & 1) != 0;
      if (!begins && from != came_from) continue;
      for (std::size_t by = 0; by < places; ++by) {
        for (std::size_t to = 0; to < places; ++to) {
          at_[number] = to;
          const MoveTable& moves = instance_.moves[0];
          go_on(block, number + 1,
                cost + moves.shortest(from, by) + used_at(number, block, by) +
                    moves.shortest(by, to));
        }
      }
    }
    at_[number] = came_from;
  }
  double used_at(std::size_t chunk, std::uint32_t block, std::size_t place) const {
    for (std::size_t use = 0; use < instance_.uses.size(); ++use) {
      if (instance_.uses[use].chunk == chunk && instance_.uses[use].block == block)
        return instance_.row(use)[place];
    }
    return 0;
  }
  bool fits(std::uint32_t block) const {
    std::vector<std::uint64_t> lies(places);
    for (std::size_t i = 0; i < at_.size(); ++i) {
      const PlacementChunk& chunk = instance_.chunks[i];
      if (chunk.begin <= block && block < chunk.end) lies[at_[i]] += chunk.bytes;
    }
    for (std::size_t place = 0; place < places; ++place)
      if (lies[place] > instance_.capacities[place]) return false;
    return true;
  }

  const PlacementInstance& instance_;
  std::vector<std::size_t> at_;
  double best_ = infinite_s;
};

TEST(ExactOptimum, IsTheCheapestOfAllWays) {
  std::size_t contended = 0;
  for (std::uint64_t seed = run_seed(); seed < run_seed() + 300; ++seed) {
    const PlacementInstance instance = in_order(seed, 2, 3);
    const std::optional<double> exact = ExactOptimum()(instance);
    ASSERT_TRUE(exact) << "seed " << seed;
    ASSERT_NEAR(*exact, EveryWay(instance).run(), 1e-9) << "seed " << seed;
    PlacementInstance roomy = instance;
    roomy.capacities = {1000, 1000, 1000};
    contended += *ExactOptimum()(roomy) < *exact - 1e-9 ? 1 : 0;
  }
  EXPECT_GT(contended, 2u);
}

TEST(ExactOptimum, RefusesWhatIsTooLarge) {
  EXPECT_TRUE(ExactOptimum()(in_order(1, 6, 4)));
  EXPECT_FALSE(ExactOptimum()(in_order(1, 9, 4)));
}

double without_prices(const PlacementInstance& instance) {
  const EpochGrid grid(instance, 1);
  std::vector<double> used;
  return CheapestPaths(instance, grid)(std::vector<double>(grid.epochs * places), used);
}

/// Exhaustive search for one chunk: up to three places per block, and each use at the best place
/// where it can meet the chunk, also in another block if it may be late.
class EveryVisit {
 public:
  explicit EveryVisit(const PlacementInstance& instance) : instance_(instance) {}

  double run() {
    for (std::size_t place = 0; place < places; ++place) {
      if ((instance_.chunks[0].begin_places >> place & 1) == 0) continue;
      visited_.assign(instance_.blocks, {});
      go_on(0, {place}, 0);
    }
    return best_;
  }

 private:
  void go_on(std::uint32_t block, std::vector<std::size_t> visits, double moved) {
    visited_[block] = visits;
    if (block + 1 == instance_.blocks) {
      best_ = std::min(best_, moved + uses());
    } else {
      go_on(block + 1, {visits.back()}, moved);
    }
    if (visits.size() == 4) return;
    for (std::size_t to = 0; to < places; ++to) {
      if (to == visits.back()) continue;
      std::vector<std::size_t> more = visits;
      more.push_back(to);
      go_on(block, more, moved + instance_.moves[0].direct(visits.back(), to));
    }
  }
  double uses() const {
    double sum = 0;
    for (std::size_t use = 0; use < instance_.uses.size(); ++use) {
      double best = infinite_s;
      const std::uint32_t block = instance_.uses[use].block;
      for (const std::size_t at : visited_[block]) best = std::min(best, instance_.row(use)[at]);
      if (instance_.uses[use].late) {
        for (const std::size_t at : visited_[block + 1])
          best = std::min(best, instance_.row(use)[at]);
      }
      sum += best;
    }
    return sum;
  }

  const PlacementInstance& instance_;
  std::vector<std::vector<std::size_t>> visited_;
  double best_ = infinite_s;
};

TEST(CheapestPaths, AreNotAboveAnyOrderOfUsesAndMoves) {
  std::size_t sharp = 0;
  const auto seeds = static_cast<std::uint64_t>(sampled(300));
  for (std::uint64_t seed = run_seed(); seed < run_seed() + seeds; ++seed) {
    AnyInstance any(seed);
    any.capacities(1000);
    any.instance.blocks = 3;
    any.chunk(0, UINT32_MAX);
    for (std::uint64_t uses = 2 + any.below(6); uses > 0; --uses) {
      const auto block = static_cast<std::uint32_t>(any.below(3));
      any.use(block, static_cast<std::uint8_t>(any.below(2)), block < 2 && any.below(2) == 0);
    }
    PlacementInstance separate = any.instance;  // A copy made before equal uses are merged.
    any.instance.arrange();
    const double bound = without_prices(any.instance);
    const double least = EveryVisit(separate).run();
    ASSERT_LE(bound, least + 1e-9) << "seed " << seed;
    sharp += bound > least - 1e-9 ? 1 : 0;
  }
  EXPECT_GT(sharp, seeds / 5);
}

TEST(PlacementBounds, StandInOrder) {
  std::size_t prices_helped = 0;
  for (std::uint64_t seed = run_seed(); seed < run_seed() + 200; ++seed) {
    const PlacementInstance instance = in_order(seed, 3, 4);
    const PlacementBounds bounds = placement_bounds(instance);
    const auto row = [&](const std::string& name) {
      const auto found = std::ranges::find(bounds.rows, name, &PlacementBounds::Row::name);
      return found == bounds.rows.end() ? PlacementBounds::Row{} : *found;
    };
    const double exact = row("exact").bound_s.value_or(infinite_s);
    const double event = row("event").bound_s.value_or(infinite_s);
    const double priced = row("lagrangian").bound_s.value_or(infinite_s);
    ASSERT_LE(event, priced) << "seed " << seed;
    ASSERT_LE(priced, exact + 1e-9) << "seed " << seed;
    prices_helped += priced > event + 1e-6 ? 1 : 0;
    for (const PlacementBounds::Row& each : bounds.rows) {
      if (each.plan_s) {
        ASSERT_GE(*each.plan_s, exact) << "seed " << seed << " " << each.name;
      }
      if (each.plan_s && each.bound_s) {
        ASSERT_GE(*each.plan_s, *each.bound_s) << "seed " << seed << " " << each.name;
      }
    }
    const Bound best = bounds.best();
    EXPECT_EQ(best.lower_bound_s, exact) << "seed " << seed;
    EXPECT_EQ(best.kind, "exact") << "seed " << seed;
    ASSERT_TRUE(best.plan_s) << "seed " << seed;
    if (best.gap) {
      EXPECT_GE(*best.gap, -1e-9);
    }
  }
  EXPECT_GT(prices_helped, 20u);
}

/// Twenty chunks that one GPU uses in turn, with room for ten.
PlacementInstance crowded() {
  AnyInstance any(1);
  any.instance.capacities = {1000, 1000, 10'000};
  any.instance.blocks = 40;
  for (std::uint32_t chunk = 0; chunk < 20; ++chunk) {
    any.chunk(0, UINT32_MAX);
    any.instance.chunks.back().begin_places = any.instance.all_places();
    for (std::uint32_t block = chunk % 4; block < 40; block += 4) any.use(block, 0);
  }
  any.instance.arrange();
  return any.instance;
}

TEST(PlacementBounds, PricesComeCloseToAPlanWhereRoomIsShort) {
  const PlacementBounds bounds = placement_bounds(crowded());
  const Bound best = bounds.best();
  EXPECT_EQ(best.kind, "lagrangian");
  ASSERT_TRUE(best.gap);
  EXPECT_LT(*best.gap, 0.12);
  // Without capacities, no chunk would have to be elsewhere.
  EXPECT_NEAR(without_prices(crowded()), 0, 1e-9);
  EXPECT_GT(best.lower_bound_s, 1);
}

TEST(PlacementBounds, AreTheSameEachTime) {
  const PlacementBounds one = placement_bounds(crowded()), other = placement_bounds(crowded());
  ASSERT_EQ(one.rows.size(), other.rows.size());
  for (std::size_t i = 0; i < one.rows.size(); ++i) {
    EXPECT_EQ(one.rows[i].bound_s, other.rows[i].bound_s);
    EXPECT_EQ(one.rows[i].plan_s, other.rows[i].plan_s);
  }
}

TEST(PlacementBounds, KeepToTheirLimits) {
  BoundLimits limits;
  limits.epochs_max = 7;
  limits.plan_cells_max = 100;
  limits.rounds_max = 1;
  const PlacementBounds bounds = placement_bounds(crowded(), limits);
  EXPECT_EQ(bounds.epochs, 1u);
  const PlacementBounds whole = placement_bounds(crowded());
  EXPECT_LE(bounds.best().lower_bound_s, whole.best().lower_bound_s);
}

TEST(BestStatic, BoundsNoPlanThatMoves) {
  // One chunk that first one GPU uses and then the other; remote use is expensive, moves are cheap.
  AnyInstance any(3);
  any.capacities(1000);
  any.instance.blocks = 20;
  any.chunk(0, UINT32_MAX);
  for (std::uint32_t block = 0; block < 20; ++block)
    for (int times = 0; times < 9; ++times) any.use(block, block < 10 ? 0 : 1);
  any.instance.arrange();
  const EpochGrid grid(any.instance, 1);
  BestStatic fixed(any.instance, grid);
  const double bound = fixed.bound(infinite_s, 10).seconds;
  EXPECT_GT(bound, placement_bounds(any.instance).best().plan_s.value_or(infinite_s));
}

}  // namespace
}  // namespace vma
