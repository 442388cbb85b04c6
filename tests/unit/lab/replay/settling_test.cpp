// Goal: the time that each phase takes to settle. Method: hand-made reports with windows of 100 ms.

#include "lab/replay/replay_metrics.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;

constexpr Time first_second = std::chrono::seconds(7);
constexpr double idle = 0;

struct Phases {
  Phases() {
    report.begin = first_second;
    report.window = milliseconds(100);
  }
  /// Appends windows with these slowdowns.
  Phases& windows(const std::vector<double>& slowdowns) {
    for (const double slowdown : slowdowns)
      report.windows.push_back({0, 2 * slowdown, slowdown > 0 ? 2.0 : 0.0, 0, {}});
    return *this;
  }
  /// Marks the current end, plus `later`.
  Phases& mark(Time later = Time::zero()) {
    report.marks.emplace_back(
        first_second + static_cast<Time::rep>(report.windows.size()) * report.window + later,
        "phase");
    return *this;
  }
  std::vector<std::optional<Time>> times() const { return rest_times(report); }

  ReplayReport report;
};

using Times = std::vector<std::optional<Time>>;

TEST(Settling, CountsFromTheMarkToTheLastChange) {
  Phases phases;
  phases.mark().windows({4, 3, 2, 1, 1, 1, 1, 1});
  phases.mark().windows({8, 1, 8, 2, 2, 2.09, 2, 1.91, 2, 2, 2, 2});
  EXPECT_EQ(phases.times(), (Times{milliseconds(300), milliseconds(300)}));
}

TEST(Settling, AMarkThatChangesNothingSettlesAtOnce) {
  Phases phases;
  phases.windows({5, 5}).mark().windows({1, 1, 1.02, 1, 0.98, 1, 1, 1});
  EXPECT_EQ(phases.times(), Times{Time::zero()});
}

TEST(Settling, WhatStillChangesInTheLastQuarterHasNotSettled) {
  // The last two of eight count: their median is 1.5, and neither is near it.
  Phases restless;
  restless.mark().windows({1, 1, 1, 1, 1, 1, 1, 2});
  EXPECT_EQ(restless.times(), Times{std::nullopt});
  // The last three of twelve count: the median is 1, but the first of them is not near it.
  Phases late;
  late.mark().windows({9, 9, 9, 9, 9, 9, 9, 9, 9, 2, 1, 1});
  EXPECT_EQ(late.times(), Times{std::nullopt});
  Phases just;
  just.mark().windows({9, 9, 9, 9, 9, 9, 9, 9, 9, 1, 1, 1});
  EXPECT_EQ(just.times(), Times{milliseconds(900)});
}

TEST(Settling, OfAShortPhaseNothingIsSaid) {
  Phases phases;
  phases.mark().windows({1, 1, 1, 1, 1, 1, 1});
  phases.mark();  // Another mark at the same time as the next.
  phases.mark().windows({1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_EQ(phases.times(), (Times{std::nullopt, std::nullopt, Time::zero()}));
}

TEST(Settling, IdleWindowsSayNothing) {
  Phases phases;
  phases.mark().windows({4, idle, 1, 1, 1, idle, 1, idle, 1, 1, 1, idle});
  EXPECT_EQ(phases.times(), Times{milliseconds(200)});
  Phases few;
  few.mark().windows({1, idle, 1, idle, 1, idle, 1, idle, 1, idle, 1, idle, 1, idle});
  EXPECT_EQ(few.times(), Times{std::nullopt});
}

TEST(Settling, AWindowAcrossAMarkBelongsToNeitherPhase) {
  Phases phases;
  phases.mark(milliseconds(-0)).windows({1, 1, 1, 1, 1, 1, 1, 1});
  phases.mark(milliseconds(40)).windows({99, 3, 2, 2, 2, 2, 2, 2, 2});
  EXPECT_EQ(phases.times(), (Times{Time::zero(), milliseconds(160)}));
}

}  // namespace
}  // namespace vma
