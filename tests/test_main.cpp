// The main function of every test binary: GoogleTest's, except that a run that tested nothing has
// an exit code of its own, which ctest shows as skipped.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

const pid_t process = getpid();

}  // namespace

/// Asked by LeakSanitizer at exit. In a forked child another thread of the parent may have its lock
/// for ever.
extern "C" int __lsan_is_turned_off() {
  return getpid() == process ? 0 : 1;
}

int main(int argc, char** argv) {
  // On a busy computer a thread may not run for a long time, which is no fault of a policy.
  setenv("VMART_POLICY_LIMIT_MS", "60000", 0);
  constexpr int exit_skipped = 77;  // SKIP_RETURN_CODE in tests/CMakeLists.txt.
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  const testing::UnitTest& run = *testing::UnitTest::GetInstance();
  if (result != 0 || run.skipped_test_count() == 0 || run.successful_test_count() > 0) {
    return result;
  }
  std::puts("every case was skipped");
  return exit_skipped;
}
