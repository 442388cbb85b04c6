#include "contract/child_process.hpp"

#include "base/clock.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <optional>
#include <spawn.h>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr const char* child_variable = "VMART_CONTRACT_CHILD";

/// The exit status; none if the limit has passed and the process was killed.
std::optional<int> wait_for(pid_t child, std::chrono::seconds limit) {
  const SteadyClock clock;
  const TimePoint deadline = clock.now() + limit;
  Poll poll;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (clock.now() < deadline) {
      poll.pause();
      continue;
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return std::nullopt;
  }
  return status;
}

}  // namespace

bool inside_child() {
  return std::getenv(child_variable) != nullptr;
}

void run_current_test_in_child(std::chrono::seconds limit) {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  std::string program = "/proc/self/exe";
  std::string filter = std::string("--gtest_filter=") + test.test_suite_name() + "." + test.name();
  char* arguments[] = {program.data(), filter.data(), nullptr};
  std::vector<std::string> variables{std::string(child_variable) + "=1"};
  for (char** variable = environ; *variable != nullptr; ++variable)
    variables.emplace_back(*variable);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);

  pid_t child = 0;
  const int failed =
      posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environment.data());
  ASSERT_EQ(failed, 0) << "posix_spawn";
  const std::optional<int> status = wait_for(child, limit);
  ASSERT_TRUE(status.has_value()) << "the child hung and was killed";
  ASSERT_TRUE(WIFEXITED(*status)) << "the child died of signal " << WTERMSIG(*status);
  EXPECT_EQ(WEXITSTATUS(*status), 0) << "the child's test failed, see above";
}

}  // namespace vma
