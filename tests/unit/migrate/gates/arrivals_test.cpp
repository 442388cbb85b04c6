// Goal: a stream has arrived once it has written the epoch of its gate, and then stays so. Method:
// words that the test writes.
#include "migrate/gates/arrivals.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace vma {
namespace {

TEST(Arrivals, AreSeenOnceAndStay) {
  SteadyClock clock;
  Arrivals arrivals(clock, 10, 2);
  std::uint64_t one = 0, two = 0;
  arrivals.look();
  EXPECT_FALSE(arrivals.any());
  arrivals.expect(0, &one);
  arrivals.expect(1, &two);
  one = 10;
  arrivals.look();
  EXPECT_TRUE(arrivals.any());
  EXPECT_FALSE(arrivals.all());
  one = 3;  // A late write of an old gate.
  two = 11;
  arrivals.look();
  EXPECT_TRUE(arrivals.has(0));
  EXPECT_FALSE(arrivals.has(1)) << "another gate's epoch is no arrival";
  two = 10;
  arrivals.look();
  EXPECT_TRUE(arrivals.all());
  EXPECT_LE(arrivals.first(), arrivals.last());
}

TEST(Arrivals, TakeWhatIsExcusedForArrivedWithoutATime) {
  SteadyClock clock;
  Arrivals arrivals(clock, 10, 2);
  std::uint64_t word = 10;
  arrivals.excuse(0);
  arrivals.excuse(0);
  EXPECT_FALSE(arrivals.any());
  EXPECT_FALSE(arrivals.all());
  arrivals.expect(1, &word);
  arrivals.look();
  EXPECT_TRUE(arrivals.all());
  EXPECT_EQ(arrivals.first(), arrivals.last());
}

}  // namespace
}  // namespace vma
