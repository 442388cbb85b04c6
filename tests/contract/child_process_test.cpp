// Goal: a test in a child passes, fails and is killed as it should, so that the contract's fatal
// claims are really checked. Method: tests that run themselves.

#include "contract/child_process.hpp"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>

namespace vma {
namespace {

TEST(ChildProcess, PassesWithItsChild) {
  if (inside_child()) return;
  run_current_test_in_child(std::chrono::seconds(60));
}

TEST(ChildProcess, FailsWithItsChild) {
  if (inside_child()) std::_Exit(1);
  EXPECT_NONFATAL_FAILURE(run_current_test_in_child(std::chrono::seconds(60)), "child's test");
}

TEST(ChildProcess, ADeadChildIsAFailure) {
  if (inside_child()) std::abort();
  EXPECT_FATAL_FAILURE(run_current_test_in_child(std::chrono::seconds(60)), "signal");
}

TEST(ChildProcess, AChildThatStandsStillIsKilled) {
  if (inside_child()) std::promise<void>().get_future().wait();
  EXPECT_FATAL_FAILURE(run_current_test_in_child(std::chrono::seconds(1)), "the child hung");
}

}  // namespace
}  // namespace vma
