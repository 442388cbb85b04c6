// Goal: use ends when a chunk would have been used 16 times over at its pace, not when averages
// have faded; pauses and use at random end nothing. Method: uses by hand on machines like H200s,
// with HBM for one chunk; then the policy, whose averages alone would take seconds.
#include "placement/auto/auto.hpp"
#include "placement/auto/use_endings.hpp"

#include "base/units.hpp"

#include "unit/placement/policies/policy_rig.hpp"

#include <random>

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

class UseEndingsTest : public testing::Test {
 protected:
  /// The policy, with what was in HBM and has been used so often in each tick for 5 s.
  void use_before(double passes) {
    rig_.run(5s, [&] { rig_.use_and_apply(before_, gpu_, passes * small_pass); });
  }
  /// Ticks until what is read from the host four times a second lies in HBM.
  int ticks_until_replaced(int most) {
    int ticks = 0;
    for (; ticks < most && rig_.at(after_) != gpu_; ++ticks)
      rig_.run(10ms, [&] { rig_.use_and_apply(after_, gpu_, 0.1 * small_pass); });
    return ticks;
  }
  double demand() const {
    double sum = 0;
    rig_.snapshot().for_each_user(before_,
                                  [&](PlaceId, const Heat& heat) { sum += heat.short_term(); });
    return sum;
  }

  const PlaceId gpu_ = gpu_place(0);
  PolicyRig rig_{cost_benefit_kind(), PolicyMachine::h200(1, small_chunk, 100 * small_chunk)};
  const ChunkId before_ = rig_.allocate({small_chunk}, gpu_),
                after_ = rig_.allocate({small_chunk}, rig_.host_place());
  UseEndings endings_{250ms, 1};
};

// 16 passes take 160 ms at 100 a second, so the least pause decides; averages would take 6 s to
// fall from 100 to half of 10 passes a second.
TEST_F(UseEndingsTest, WhatWasReadOftenMakesWayAsSoonAsItsUseHasEnded) {
  use_before(1);
  EXPECT_GE(ticks_until_replaced(25), 25);
  EXPECT_LE(ticks_until_replaced(20), 15) << "in slices of 50 ms";
}

// Ten passes a second: 16 of them take 1.6 s.
TEST_F(UseEndingsTest, WhatWasReadSeldomIsGivenMoreTime) {
  rig_.run(10s, [&] {
    if (rig_.now() / 10ms % 10 == 0) rig_.use_and_apply(before_, gpu_, small_pass);
  });
  const std::optional<Time> end = endings_.end_of(before_, demand(), rig_.snapshot());
  ASSERT_TRUE(end);
  EXPECT_NEAR(in_seconds(*end - rig_.snapshot().chunk(before_).last_use), 1.6, 0.2);
  rig_.advance(1s);
  EXPECT_FALSE(endings_.ended(before_, demand(), rig_.snapshot()));
  EXPECT_EQ(*end, *endings_.end_of(before_, demand(), rig_.snapshot())) << "the end stays";
  rig_.advance(1s);
  EXPECT_TRUE(endings_.ended(before_, demand(), rig_.snapshot()));
}

TEST_F(UseEndingsTest, UseOfOncePerSecondEndsByAveragesAlone) {
  rig_.use(before_, gpu_, small_pass);
  rig_.advance(1s);
  rig_.use(before_, gpu_, small_pass);
  EXPECT_EQ(endings_.end_of(before_, demand(), rig_.snapshot()), std::nullopt);
}

TEST_F(UseEndingsTest, WithoutALeastPauseNoUseEnds) {
  use_before(1);
  rig_.advance(1s);
  EXPECT_FALSE(UseEndings(0s, 1).ended(before_, demand(), rig_.snapshot()));
  EXPECT_TRUE(endings_.ended(before_, demand(), rig_.snapshot()));
}

// Draws at random, 30 a second: of a million intervals one is as long as 14 mean ones.
TEST_F(UseEndingsTest, UseAtRandomDoesNotEnd) {
  std::mt19937_64 random(1);
  std::bernoulli_distribution draws(0.3);
  rig_.run(20s, [&] {
    if (draws(random)) rig_.use_and_apply(before_, gpu_, small_pass);
    rig_.use_and_apply(after_, gpu_, 0.1 * small_pass);
  });
  EXPECT_EQ(rig_.made().size(), 0u);
}

TEST_F(UseEndingsTest, AChunkIsToldOnceWhenItsTimeHasCome) {
  std::vector<ChunkId> due;
  endings_.watch(before_, 400ms, 100ms);
  endings_.watch(before_, 900ms, 100ms);
  endings_.watch(after_, 60s, 100ms);  // Too far away.
  endings_.take_due(399ms, due);
  EXPECT_TRUE(due.empty());
  endings_.take_due(450ms, due);
  EXPECT_EQ(due, std::vector{before_});
  endings_.take_due(60s, due);
  EXPECT_EQ(due.size(), 1u);
  endings_.watch(after_, 61s, 60s);
  endings_.forget(after_);
  endings_.take_due(70s, due);
  EXPECT_EQ(due.size(), 1u) << "it is gone";
}

}  // namespace
}  // namespace v1
}  // namespace vma
