// Goal: errors, bias and factors match hand computation. Method: a few predictions, each with its
// outcome.
#include "scheduling/prediction_log.hpp"

#include "costs/move_costs.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr PlaceId zero{0}, one{1}, two{2};

TEST(PredictionLog, SaysHowFarOffPredictionsWere) {
  PredictionLog log;
  // 10 predictions: six 0.1 too long, three 0.2 too short, one 1.0 too long. Each for another
  // route, so that no earlier one corrects it.
  const auto target = [](int number) { return PlaceId{static_cast<std::uint8_t>(number)}; };
  for (int i = 0; i < 6; ++i)
    log.add(Foretold::move, zero, target(i), milliseconds(110), milliseconds(100));
  for (int i = 6; i < 9; ++i)
    log.add(Foretold::move, zero, target(i), milliseconds(80), milliseconds(100));
  log.add(Foretold::move, zero, target(9), milliseconds(200), milliseconds(100));
  const PredictionSummary summary = log.total(Foretold::move);
  EXPECT_EQ(summary.count, 10u);
  EXPECT_NEAR(summary.median_error, 0.1, 0.005);
  EXPECT_NEAR(summary.p90_error, 0.2, 0.01);
  EXPECT_NEAR(summary.bias, (6 * 0.1 - 3 * 0.2 + 1.0) / 10, 1e-9);
}

TEST(PredictionLog, KeepsRoutesDirectionsAndKindsApart) {
  PredictionLog log;
  log.add(Foretold::move, zero, one, milliseconds(2), milliseconds(1));
  log.add(Foretold::stall, zero, one, microseconds(100), microseconds(200));
  log.add(Foretold::access, zero, two, microseconds(100), microseconds(100));
  EXPECT_NEAR(log.summary(Foretold::move, zero, one).bias, 1, 1e-9);
  EXPECT_EQ(log.summary(Foretold::move, one, zero).count, 0u);
  EXPECT_NEAR(log.summary(Foretold::stall, zero, one).bias, -0.5, 1e-9);
  EXPECT_EQ(log.summary(Foretold::access, zero, two).median_error, 0);
  log.add(Foretold::move, one, zero, milliseconds(1), milliseconds(1));
  EXPECT_EQ(log.total(Foretold::move).count, 2u);
  EXPECT_NEAR(log.total(Foretold::move).bias, 0.5, 1e-9);
  EXPECT_EQ(log.total(Foretold::access).count, 1u);
}

TEST(PredictionLog, FactorFollowsSlowlyAndWithinBounds) {
  PredictionLog log;
  EXPECT_EQ(log.factor(Foretold::move, zero, one), 1);
  log.add(Foretold::move, zero, one, milliseconds(100), milliseconds(132));
  EXPECT_NEAR(log.factor(Foretold::move, zero, one), 1 + 0.32 / 16, 1e-9);
  log.add(Foretold::move, zero, one, milliseconds(1), std::chrono::hours(1));  // An outlier.
  EXPECT_NEAR(log.factor(Foretold::move, zero, one), 1.02 + (2 - 1.02) / 16, 1e-9);
  for (int i = 0; i < 500; ++i) {
    log.add(Foretold::move, zero, one, milliseconds(1), std::chrono::hours(1));
    log.add(Foretold::move, one, zero, std::chrono::hours(1), milliseconds(1));
    log.add(Foretold::stall, zero, one, milliseconds(100), milliseconds(130));
  }
  EXPECT_NEAR(log.factor(Foretold::move, zero, one), 2, 1e-6);
  EXPECT_NEAR(log.factor(Foretold::move, one, zero), 0.5, 1e-6);
  EXPECT_NEAR(log.factor(Foretold::stall, zero, one), 1.3, 1e-6);
}

// Takes half as long again as predicted, each time.
TEST(PredictionLog, ErrorsFallAsItLearns) {
  PredictionLog log;
  const auto add = [&] {
    log.add(Foretold::move, zero, one, milliseconds(100), milliseconds(150));
  };
  add();
  EXPECT_NEAR(log.summary(Foretold::move, zero, one).bias, 100.0 / 150 - 1, 1e-9);
  add();  // Predicted with the previous factor: 1 + 0.5 / 16.
  EXPECT_NEAR(log.summary(Foretold::move, zero, one).bias * 2, 203.125 / 150 - 2, 1e-9);
  for (int i = 0; i < 98; ++i) add();
  EXPECT_LT(log.summary(Foretold::move, zero, one).median_error, 0.02);
  EXPECT_LT(log.total(Foretold::move).median_error, 0.02);
  EXPECT_NEAR(log.factor(Foretold::move, zero, one), 1.5, 0.01) << "of the uncorrected ones";
}

TEST(PredictionLog, CorrectsTheCostsOfItsRoutesOnly) {
  MachineCosts costs(2, 3);
  for (const PlaceId from : {zero, one, two}) {
    for (const PlaceId to : {zero, one, two}) {
      costs.copy_rate(from, to) = 1e9;
      costs.move_fixed(from, to) = microseconds(500);
      costs.move_per_byte(from, to) = 1e-9;
      costs.stall_fixed(from, to) = microseconds(80);
      costs.stall_per_byte(from, to) = 1e-12;
      costs.access_rate(from, to) = from == to ? 4e9 : 1e9;
      costs.access_latency(from, to) = microseconds(1);
    }
  }
  costs.access_rate(zero, one) = 1.5e9;
  costs.rank();
  PredictionLog log;
  for (int i = 0; i < 500; ++i) {
    log.add(Foretold::move, zero, one, milliseconds(10), milliseconds(15));
    log.add(Foretold::stall, zero, one, milliseconds(10), milliseconds(8));
    log.add(Foretold::access, zero, one, milliseconds(10), milliseconds(20));
  }
  const MachineCosts corrected = log.corrected(costs);
  constexpr std::uint64_t bytes = 1'000'000;  // 2.5 ms by the costs, with a stall of 81 us.
  EXPECT_EQ(costs.move_time(zero, one, bytes), microseconds(2'500));
  EXPECT_NEAR(static_cast<double>(corrected.move_time(zero, one, bytes).count()), 3.75e6, 10);
  EXPECT_NEAR(static_cast<double>(corrected.stall_time(zero, one, bytes).count()), 64.8e3, 10);
  EXPECT_EQ(corrected.move_time(one, zero, bytes), microseconds(2'500));
  EXPECT_EQ(corrected.stall_time(one, zero, bytes), microseconds(81));
  // 1.5 GB/s halved is less than the host's 1, so the tiers swap.
  EXPECT_EQ(costs.by_speed(zero)[1], one);
  EXPECT_EQ(corrected.by_speed(zero)[1], two);
}

TEST(PredictionLog, TakesMovesFromTheirReports) {
  MachineCosts costs(2, 2);
  costs.copy_rate(zero, one) = 1e9;
  costs.stall_fixed(zero, one) = microseconds(100);
  PredictionLog log;
  MigrationReport report;
  report.bytes_asked = report.bytes_moved = 1'000'000;
  report.chunks = report.chunks_moved = 1;
  report.wall = microseconds(1'250);
  report.phases.copy = report.wall;
  report.stall = {1, microseconds(200), microseconds(200), microseconds(200)};
  log.add_move(costs, zero, one, report);
  EXPECT_NEAR(log.summary(Foretold::move, zero, one).bias, -0.2, 1e-9);
  EXPECT_NEAR(log.summary(Foretold::stall, zero, one).bias, -0.5, 1e-9);

  MigrationReport other = report;
  other.outcome = Outcome::partly;
  log.add_move(costs, zero, one, other);
  other = report;
  other.retries = 1;
  log.add_move(costs, zero, one, other);
  other = report;
  other.bytes_moved = 500'000;
  log.add_move(costs, zero, one, other);
  other = report;
  other.chunks_moved = 0;
  log.add_move(costs, zero, one, other);
  EXPECT_EQ(log.total(Foretold::move).count, 1u);
  EXPECT_EQ(log.total(Foretold::stall).count, 1u);
  other = report;
  other.chunks_moved = 4;  // Under one hold.
  log.add_move(costs, zero, one, other);
  EXPECT_EQ(log.total(Foretold::stall).count, 1u);
  other.stall.count = 4;  // At gates.
  log.add_move(costs, zero, one, other);
  EXPECT_EQ(log.total(Foretold::stall).count, 2u);
  EXPECT_EQ(log.total(Foretold::move).count, 1u);
}

// The move takes the predicted millisecond, although streams took 40 ms to arrive and the budget
// another 40.
TEST(PredictionLog, TakesNoTimeThatTheApplicationRuns) {
  MachineCosts costs(2, 2);
  costs.copy_rate(zero, one) = 1e9;
  MigrationReport report;
  report.bytes_asked = report.bytes_moved = 1'000'000;
  report.chunks = report.chunks_moved = 1;
  report.wall = milliseconds(81);
  report.phases.wait = milliseconds(40);
  report.phases.copy = microseconds(900);
  report.phases.settle = microseconds(40);
  report.phases.cache = report.phases.retire = microseconds(5);
  report.phases.unmap = report.phases.map = microseconds(10);
  report.phases.grant = microseconds(30);
  EXPECT_EQ(move_time(report), milliseconds(1));
  PredictionLog log;
  log.add_move(costs, zero, one, report);
  EXPECT_EQ(log.total(Foretold::move).count, 1u);
  EXPECT_NEAR(log.total(Foretold::move).bias, 0, 1e-9);
  EXPECT_EQ(log.factor(Foretold::move, zero, one), 1);
}

// Four chunks; each was copied while the one before it waited.
TEST(MoveTime, IsNoMoreThanTheWallWithoutTheWaits) {
  MigrationReport report;
  report.wall = milliseconds(100);
  report.phases.wait = milliseconds(80);
  report.phases.copy = milliseconds(90);
  EXPECT_EQ(move_time(report), milliseconds(20));
}

TEST(PredictionLog, LeavesOutWhatNoErrorCanBeSaidOf) {
  PredictionLog log;
  log.add(Foretold::move, zero, one, milliseconds(1), milliseconds(0));
  log.add(Foretold::move, zero, one, Time::max(), milliseconds(1));  // There is no route.
  log.add(Foretold::move, zero, one, milliseconds(-1), milliseconds(1));
  EXPECT_EQ(log.total(Foretold::move).count, 0u);
  log.add(Foretold::move, zero, one, milliseconds(0), milliseconds(1));
  EXPECT_EQ(log.total(Foretold::move).bias, -1);
}

TEST(PredictionLog, IsBounded) {
  PredictionLog log;
  std::uint64_t added = 0;
  for (int from = 0; from < 64; ++from) {
    for (int to = 0; to < 64; ++to, ++added) {
      log.add(Foretold::move, PlaceId{static_cast<std::uint8_t>(from)},
              PlaceId{static_cast<std::uint8_t>(to)}, milliseconds(2), milliseconds(1));
    }
  }
  EXPECT_EQ(log.total(Foretold::move).count, added);
  EXPECT_EQ(log.summary(Foretold::move, PlaceId{0}, PlaceId{63}).count, 1u);
  EXPECT_EQ(log.summary(Foretold::move, PlaceId{63}, PlaceId{63}).count, 0u);
  EXPECT_EQ(log.factor(Foretold::move, PlaceId{63}, PlaceId{63}), 1);
}

}  // namespace
}  // namespace vma
