// Goal: VMART_LOG decides what is written to standard error, and an invalid value is reported.
// Method: the level is read once per process, so each case runs in its own process.
#include "base/log.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace vma {
namespace {

class LogDeathTest : public testing::Test {
 protected:
  LogDeathTest() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

/// Writes a line at each level and exits with the level as exit code.
[[noreturn]] void write_all_levels(const char* setting) {
  if (setting == nullptr) {
    unsetenv("VMART_LOG");
  } else {
    setenv("VMART_LOG", setting, 1);
  }
  log(LogLevel::error, "line of {}", "error");
  log(LogLevel::warn, "line of {}", "warn");
  log(LogLevel::info, "line of {}", "info");
  log(LogLevel::debug, "line of {}", "debug");
  std::_Exit(static_cast<int>(log_level()));
}

testing::ExitedWithCode exits_with(LogLevel level) {
  return testing::ExitedWithCode(static_cast<int>(level));
}

TEST_F(LogDeathTest, WarnsByDefault) {
  EXPECT_EXIT(write_all_levels(nullptr), exits_with(LogLevel::warn),
              "^vmart: error: line of error\nvmart: warn: line of warn\n$");
}

TEST_F(LogDeathTest, WritesWhatTheVariableAsksFor) {
  EXPECT_EXIT(write_all_levels("off"), exits_with(LogLevel::off), "^$");
  EXPECT_EXIT(write_all_levels("error"), exits_with(LogLevel::error),
              "^vmart: error: line of error\n$");
  EXPECT_EXIT(write_all_levels("debug"), exits_with(LogLevel::debug),
              "vmart: debug: line of debug");
}

TEST_F(LogDeathTest, NamesAValueThatMeansNothing) {
  EXPECT_EXIT(write_all_levels("loud"), exits_with(LogLevel::warn),
              "VMART_LOG is .loud.; expected off, error");
}

}  // namespace
}  // namespace vma
