// Goal: after shutdown, in a forked child, during process exit and without a driver, every call is
// refused; nothing crashes or hangs. Method: child processes and death tests.
#include "unit/runtime/service_rig.hpp"

#include <vma/vma.hpp>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

namespace vma {
namespace {

RuntimeOptions simulated() {
  RuntimeOptions options;
  options.driver = "sim:test-2";
  return options;
}

TEST(Shutdown, RefusesLaterCalls) {
  ServiceRig rig;
  void* pointer = rig.runtime().alloc(page, gpu(0));
  rig.runtime().shutdown();
  rig.runtime().shutdown();
  const std::function<void()> calls[] = {
      [&] { rig.runtime().alloc(page); },
      [&] { rig.runtime().free(pointer); },
      [&] { rig.runtime().migrate(pointer, gpu(1)); },
      [&] { rig.runtime().where(pointer); },
      [&] { rig.runtime().make_stream(gpu(0)); },
      [&] { rig.runtime().stats(); },
      [&] { rig.runtime().trim(gpu(0)); },
  };
  for (const auto& call : calls) expect_error(ErrorKind::driver_gone, call);
}

TEST(TwoRuntimes, DoNotKnowEachOthersPointers) {
  Runtime first(simulated()), second(simulated());
  void* pointer = first.alloc(page, gpu(0));
  expect_error(ErrorKind::unknown_pointer, [&] { second.free(pointer); });
  expect_error(ErrorKind::unknown_pointer, [&] { second.migrate(pointer, gpu(1)); });
  first.migrate(pointer, gpu(1));
  first.free(pointer);
}

TEST(Driver, IsRefusedByNameWhenNobodyKnowsIt) {
  RuntimeOptions options;
  options.driver = "vulkan";
  const Error error = expect_error(ErrorKind::invalid_argument, [&] { Runtime runtime(options); });
  EXPECT_TRUE(says(error, "VMART_DRIVER"));
  EXPECT_TRUE(says(error, "vulkan"));
  options.driver = "sim:no-such-machine";
  EXPECT_TRUE(says(expect_error(ErrorKind::invalid_argument, [&] { Runtime runtime(options); }),
                   "no-such-machine"));
}

TEST(Driver, IsAskedForByVariableWhereThereIsNone) {
  RuntimeOptions options;
  options.driver = "cuda";
  try {
    Runtime runtime(options);
    GTEST_SKIP() << "this machine has a GPU";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::no_driver);
    EXPECT_TRUE(says(error, "VMART_DRIVER")) << error.what();
  }
}

TEST(Fork, RefusesTheChildsCallsAndFreesNothing) {
  ServiceRig rig;
  void* pointer = rig.runtime().alloc(2 * page, gpu(0));
  rig.write(pointer, 2 * page, 3);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int refused = 0;
    const std::function<void()> calls[] = {[&] { rig.runtime().alloc(page); },
                                           [&] { rig.runtime().free(pointer); },
                                           [&] { rig.runtime().migrate(pointer, gpu(1)); }};
    for (const auto& call : calls) {
      try {
        call();
      } catch (const Error& error) {
        refused += error.kind() == ErrorKind::driver_gone;
      }
    }
    rig.runtime().shutdown();  // The child must not end the parent's threads or release its memory.
    _exit(refused);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_EQ(rig.wrong(pointer, 2 * page, 3), 0u);
  EXPECT_EQ(rig.runtime().migrate(pointer, gpu(1)).outcome, Outcome::done);
}

TEST(ProcessDeathTest, ExitsWithALiveRuntime) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("VMART_DRIVER", "sim:test-2", 1);
        void* pointer = vma::alloc(page, gpu(0));
        vma::migrate(pointer, gpu(1));
        std::exit(vma::where(pointer).front().at == gpu(1) ? 7 : 1);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace vma
