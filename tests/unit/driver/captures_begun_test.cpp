// Goal: a context is waited for in the usual way only while no capture can have begun, and the
// first capture does not begin beside such a wait. Method: the object without a driver.
#include "driver/captures_begun.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

namespace vma {
namespace {

bool may_wait(CapturesBegun& captures) {
  return CapturesBegun::Wait(captures).none_has();
}

TEST(CapturesBegun, AreUnknownUntilTheProgramTells) {
  CapturesBegun captures;
  EXPECT_FALSE(may_wait(captures));
  captures.will_be_told(false);
  EXPECT_TRUE(may_wait(captures));
  captures.begins();
  EXPECT_FALSE(may_wait(captures));
}

TEST(CapturesBegun, AreNotForgotten) {
  CapturesBegun told;
  told.will_be_told(true);
  told.will_be_told(false);
  EXPECT_FALSE(may_wait(told));
  CapturesBegun begun;  // A thread may begin to capture while another tells.
  begun.begins();
  begun.will_be_told(false);
  EXPECT_FALSE(may_wait(begun));
}

TEST(CapturesBegun, TheFirstOnesBeginOnceWaitsHaveEnded) {
  CapturesBegun captures;
  captures.will_be_told(false);
  std::optional<CapturesBegun::Wait> wait(std::in_place, captures);
  ASSERT_TRUE(wait->none_has());
  std::atomic<bool> ended = false;
  std::atomic<int> too_early = 0;
  const auto begin = [&] {
    captures.begins();
    if (!ended) ++too_early;
  };
  std::thread first(begin);
  while (wait->none_has()) std::this_thread::yield();
  std::thread second(begin);  // Finds that one begins, and must wait, too.
  ended = true;
  wait.reset();
  first.join();
  second.join();
  EXPECT_EQ(too_early, 0);
  captures.begins();  // Waits for nothing.
}

}  // namespace
}  // namespace vma
