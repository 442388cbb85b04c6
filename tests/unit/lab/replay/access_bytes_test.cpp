#include "lab/replay/replay_devices.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

double bytes_of(const AccessBytes& bytes, double from, double to, double begin, double end) {
  return bytes.in_part(bytes.point(from), bytes.point(to), begin, end);
}

/// Two and a half passes over 120 bytes are three passes that leave out a sixth of each part.
TEST(AccessBytes, ArePassesThatLeaveOutTheSameShareOfEachPart) {
  const AccessBytes bytes(120, 2.5);
  EXPECT_DOUBLE_EQ(bytes.all(), 300);
  EXPECT_DOUBLE_EQ(bytes.point(250).whole, 2);
  EXPECT_DOUBLE_EQ(bytes.point(250).in_pass, 50);
  EXPECT_DOUBLE_EQ(bytes_of(bytes, 0, 100, 0, 60), 50);
  EXPECT_DOUBLE_EQ(bytes_of(bytes, 0, 300, 0, 60), 150);
  EXPECT_DOUBLE_EQ(bytes_of(bytes, 50, 300, 0, 60), 100);
}

TEST(AccessBytes, OfAStretchAreThoseThatItGetsToInThePart) {
  const AccessBytes bytes(100, 3);
  EXPECT_DOUBLE_EQ(bytes_of(bytes, 10, 40, 20, 70), 20);
  EXPECT_DOUBLE_EQ(bytes_of(bytes, 80, 130, 20, 70), 10);  // It ends before it has begun in a pass.
  EXPECT_DOUBLE_EQ(bytes_of(bytes, 30, 260, 20, 70), 40 + 50 + 40);
  EXPECT_DOUBLE_EQ(bytes_of(bytes, 70, 120, 20, 70), 0);
}

}  // namespace
}  // namespace vma
