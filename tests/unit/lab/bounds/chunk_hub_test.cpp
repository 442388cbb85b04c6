// Goal: steps through a hub cost what they did, none becomes cheaper than possible, and there are
// fewer of them; if costs are not sums of two parts there is no hub.

#include "lab/bounds/program/chunk_graph.hpp"
#include "support/test_run.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace vma {
namespace {

constexpr double no_way = std::numeric_limits<double>::infinity();
constexpr std::size_t hub_places = 4, hub_states = 2 * hub_places;

/// Steps of one layer: staying has any cost; other steps cost the sum of two parts if `adds_up`.
struct Layer {
  Layer(std::uint64_t seed, bool adds_up) : random(seed) {
    std::vector<double> from(hub_states), to(hub_states);
    for (double& part : from) part = cost();
    for (double& part : to) part = cost();
    for (std::size_t i = 0; i < hub_states * hub_states; ++i) {
      const std::size_t a = i / hub_states, b = i % hub_states;
      const bool stays = a % hub_places == b % hub_places;
      possible.push_back(stays || !adds_up ? cost() : from[a] + to[b]);
      steps.push_back(random() % 5 == 0 ? no_way : possible.back());
    }
  }
  double cost() { return static_cast<double>(random() % 1000) / 7; }

  std::mt19937_64 random;
  std::vector<double> possible, steps;
};

std::size_t count(const std::vector<double>& steps) {
  return static_cast<std::size_t>(
      std::ranges::count_if(steps, [](double step) { return step < no_way; }));
}

/// Whether there was a hub. Checks that all costs are unchanged.
bool has_hub(Layer layer) {
  const std::vector<double> before = layer.steps;
  const auto hub = ChunkHub::replace(layer.possible, layer.steps, hub_places);
  if (!hub) {
    EXPECT_EQ(layer.steps, before);
    return false;
  }
  EXPECT_GE(count(before) - count(layer.steps), 2 * (count(hub->into) + count(hub->out)));
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double by_hub = hub->into[i / hub_states] + hub->out[i % hub_states];
    EXPECT_GE(by_hub, layer.possible[i] - 1e-9);
    if (before[i] < no_way) {
      EXPECT_NEAR(std::min(layer.steps[i], by_hub), before[i], 1e-9);
    }
  }
  return true;
}

TEST(ChunkHub, ReplacesStepsThatCostTwoParts) {
  std::size_t found = 0;
  for (std::uint64_t seed = run_seed(); seed < run_seed() + 200; ++seed) {
    found += has_hub(Layer(seed, true)) ? 1 : 0;
    has_hub(Layer(seed, false));
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(found, 20u);
}

TEST(ChunkHub, IsThereWhereAllMovesCostTheSame) {
  Layer layer(run_seed(), true);
  for (std::size_t i = 0; i < hub_states * hub_states; ++i)
    layer.possible[i] = layer.steps[i] = i / hub_states % hub_places == i % hub_places ? 0 : 3;
  const auto hub = ChunkHub::replace(layer.possible, layer.steps, hub_places);
  ASSERT_TRUE(hub);
  EXPECT_EQ(count(layer.steps), 2 * hub_states);  // Staying needs its own steps.
  for (std::size_t state = 0; state < hub_states; ++state)
    EXPECT_EQ(hub->into[state] + hub->out[state], 3);
}

TEST(ChunkHub, IsNotThereForAFewSteps) {
  Layer layer(run_seed(), true);
  std::ranges::fill(layer.steps, no_way);
  EXPECT_FALSE(ChunkHub::replace(layer.possible, layer.steps, hub_places));
  layer.steps[1] = layer.possible[1];
  EXPECT_FALSE(ChunkHub::replace(layer.possible, layer.steps, hub_places));
}

}  // namespace
}  // namespace vma
