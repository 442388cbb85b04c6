// Goal: with the default limits of a runtime, a busy computer never makes a live move of any size
// give up. Method: a simulated machine with threads, next to threads that keep all processors busy.
#include "base/units.hpp"
#include "support/test_kernels.hpp"
#include "support/test_run.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace vma {
namespace {

/// Two busy threads per processor.
class BusyComputer {
 public:
  BusyComputer() {
    const unsigned threads = 2 * std::max(1u, std::thread::hardware_concurrency());
    for (unsigned i = 0; i < threads; ++i) {
      users_.push_back(executor_.spawn("busy", [this] {
        while (!over_) {
        }
      }));
    }
  }
  ~BusyComputer() {
    over_ = true;
    for (const auto& user : users_) user->join();
  }

 private:
  std::atomic<bool> over_{false};
  ThreadedExecutor executor_;
  std::vector<std::unique_ptr<Task>> users_;
};

struct Size {
  std::uint64_t mib;
  int moves;  ///< In a short run; a long run makes a hundred for each size.
};

class LiveSizes : public testing::TestWithParam<Size> {
 protected:
  static void move_beside_an_idle_stream_and_a_busy_one(const RuntimeOptions& options);
};
INSTANTIATE_TEST_SUITE_P(MiB, LiveSizes,
                         testing::Values(Size{1, 6}, Size{2, 4}, Size{5, 4}, Size{16, 2},
                                         Size{32, 2}, Size{64, 2}),
                         [](const auto& size) { return std::to_string(size.param.mib); });
INSTANTIATE_TEST_SUITE_P(LongMiB, LiveSizes,
                         testing::Values(Size{128, 0}, Size{256, 0}, Size{512, 0}, Size{1024, 0}),
                         [](const auto& size) { return std::to_string(size.param.mib); });

void LiveSizes::move_beside_an_idle_stream_and_a_busy_one(const RuntimeOptions& options) {
  constexpr int moves_long = 100;
  const int moves = long_run() ? moves_long : GetParam().moves;
  if (moves == 0) GTEST_SKIP() << "a long run moves it";
  const BusyComputer busy;
  RuntimeRig rig("h200x4", options);
  Runtime& runtime = rig.runtime();
  const std::uint64_t bytes = GetParam().mib * MiB, count = bytes / sizeof(std::uint64_t);
  std::uint64_t* words = rig.alloc(bytes, gpu(0), 0);
  rig.write(words, count, 1);
  const AttachedStream idle(runtime, rig.stream(0)), used(runtime, rig.stream(1));
  for (int move = 0; move < moves; ++move) {
    if (move % 2 == 1) {
      runtime.launch(rig.stream(1), add_kernel(), {}, {},
                     KernelArguments::of(words, count, std::uint64_t{0}));
    }
    const MigrationReport report = runtime.migrate_async(words, gpu((move + 1) % 2)).wait();
    EXPECT_EQ(report.outcome, Outcome::done);
    EXPECT_EQ(report.chunks_live, report.chunks) << "stopped none for its copy";
  }
  runtime.synchronize(rig.stream(1));
  EXPECT_EQ(rig.wrong(words, count, 1), 0u);
  runtime.free(words);
}

TEST_P(LiveSizes, MoveBesideAnIdleStreamAndABusyOne) {
  move_beside_an_idle_stream_and_a_busy_one({});
}

TEST_P(LiveSizes, MoveAtGatesBesideAnIdleStreamAndABusyOne) {
  move_beside_an_idle_stream_and_a_busy_one(without_suspension());
}

}  // namespace
}  // namespace vma
