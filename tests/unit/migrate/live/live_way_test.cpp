// Goal: the choice of a chunk's way follows the table of runtime/migrate/live/README.md. Method:
// the pure function, row by row.

#include "migrate/live/ways.hpp"

#include "machine/machine_file.hpp"
#include "sim/sim_driver.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

constexpr ContextHandle application{7};

class LiveWayTest : public testing::Test {
 protected:
  explicit LiveWayTest(const char* machine = "test-2")
      : driver_(load_machine(machine)), topology_(Topology::discover(driver_, {})) {}

  WayChoice choose(int stops, int queues, const WayFacts& facts) {
    GatePlan plan;
    plan.stops_in[application] = stops;
    return choose_way(facts, plan, topology_, [&](ContextHandle) { return queues; });
  }
  static WayFacts facts(Place from = gpu(0), Place to = gpu(1)) {
    return {from, to, Mode::automatic, application, false, 0};
  }

  SimDriver driver_;
  Topology topology_;
};

TEST_F(LiveWayTest, LiveWhereStopsAndSettlingFitTheQueues) {
  const WayChoice roomy = choose(6, 8, facts());
  EXPECT_EQ(roomy.way, Way::live);
  EXPECT_TRUE(roomy.reason.empty());
  EXPECT_TRUE(roomy.overlap);
  const WayChoice tight = choose(7, 8, facts());
  EXPECT_EQ(tight.way, Way::live);
  EXPECT_FALSE(tight.overlap) << "the next copy would want the queue that settling needs";
}

TEST_F(LiveWayTest, BesideWhereOnlyTheStopsFit) {
  EXPECT_EQ(choose(8, 8, facts()).way, Way::live_beside);
  EXPECT_EQ(choose(1, 1, facts()).way, Way::live_beside);
  WayFacts nobody = facts();
  nobody.application = ContextHandle{};
  EXPECT_EQ(choose(1, 8, nobody).way, Way::live_beside);
  WayFacts waits = facts();
  waits.application_waits = true;
  EXPECT_EQ(choose(1, 8, waits).way, Way::live_beside);
}

TEST_F(LiveWayTest, NoneWhereTheStopsWouldNeverAllArrive) {
  const WayChoice choice = choose(9, 8, facts());
  EXPECT_EQ(choice.way, Way::none);
  EXPECT_NE(choice.reason.find("9 streams"), std::string::npos) << choice.reason;
  EXPECT_EQ(choose(2, 1, facts()).way, Way::none);
}

TEST_F(LiveWayTest, StoppedFromTheHostWhenAskedAndWhereDirtyAllOver) {
  EXPECT_EQ(choose(1, 8, facts(host(0), gpu(0))).way, Way::stopped);
  EXPECT_EQ(choose(1, 8, facts(gpu(0), host(0))).way, Way::live);
  WayFacts asked = facts();
  asked.mode = Mode::stopped;
  EXPECT_EQ(choose(1, 8, asked).way, Way::stopped);
  WayFacts dirty = facts();
  dirty.dirty = 0.95;
  EXPECT_EQ(choose(1, 8, dirty).way, Way::stopped);
  dirty.mode = Mode::live;
  EXPECT_EQ(choose(1, 8, dirty).way, Way::live) << "asked for";
}

class LiveWayOnIslandsTest : public LiveWayTest {
 protected:
  LiveWayOnIslandsTest() : LiveWayTest("test-islands") {}
};

TEST_F(LiveWayOnIslandsTest, StoppedWhereTheSourceDoesNotReachTheTarget) {
  for (int from = 0; from < driver_.device_count(); ++from) {
    for (int to = 0; to < driver_.device_count(); ++to) {
      if (from == to) continue;
      const bool reaches = topology_.reaches(DeviceId{from}, gpu(to));
      EXPECT_EQ(choose(1, 8, facts(gpu(from), gpu(to))).way, reaches ? Way::live : Way::stopped);
    }
  }
}

TEST_F(LiveWayTest, ACleanCopyIsTakenHoweverTheBytesWereToCross) {
  for (const Mode mode : {Mode::automatic, Mode::live, Mode::stopped}) {
    WayFacts clean = facts(gpu(0), host(0));
    clean.mode = mode;
    clean.target_clean = true;
    EXPECT_EQ(choose(1, 8, clean).way, Way::remapped);
    EXPECT_EQ(choose(9, 8, clean).way, Way::none) << "they must stop for it all the same";
  }
}

}  // namespace
}  // namespace vma
