// Goal: moves are ordered with kernels. A move waits for earlier work; later work finds the moved
// bytes; kernels on other memory continue; and a kernel that takes too long ends the move in
// `busy`.

#include "gpu/gpu_test.hpp"
#include "support/test_kernels.hpp"

#include <atomic>
#include <thread>

namespace vma {
namespace {

constexpr std::uint64_t millisecond_ns = 1'000'000;

template <typename Machine>
class GpuKernels : public GpuTest<Machine> {};
TYPED_TEST_SUITE(GpuKernels, GpuMachines, GpuMachineNames);

TYPED_TEST(GpuKernels, AMoveWaitsForWorkBeforeItAndLaterWorkFindsItsBytes) {
  GpuRig& rig = this->rig();
  Pattern pattern(rig, gpu(0), 4);
  pattern.write(7);
  const Place places[] = {gpu(1), host(0), gpu(0)};
  for (const Place to : places) {
    // Sets up the routes and loads the kernel, which may wait for running work.
    rig.runtime().migrate(pattern.pointer(), to);
    pattern.add(0, 1);
  }
  for (const Place to : places) {
    for (int gpu = 0; gpu < rig.gpus(); ++gpu) {
      rig.runtime().launch(rig.stream(gpu), spin_kernel(), {}, {},
                           KernelArguments::of(std::uint64_t{60} * millisecond_ns));
    }
    for (int launches = 0; launches < 5; ++launches) pattern.enqueue_add(0, 3);
    const MigrationReport report = rig.runtime().migrate(pattern.pointer(), to);
    EXPECT_GE(report.phases.wait, std::chrono::milliseconds(20)) << "it did not wait for the spin";
    pattern.enqueue_add(1, 5);
    pattern.synchronize(1);
    pattern.check();
    pattern.check_at(to);
  }
}

TYPED_TEST(GpuKernels, KernelsOnOtherMemoryGoOnBesideMoves) {
  GpuRig& rig = this->rig();
  const int moves = this->on_gpus_or_simulated(60, 12);
  Pattern moved(rig, gpu(0), 2), other(rig, gpu(1), 2);
  moved.write(1), other.write(2);
  std::atomic<bool> stop{false};
  std::thread user([&] {
    try {
      for (int i = 0; !stop; ++i) other.add(i % rig.gpus(), 1);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  });
  try {
    for (int i = 0; i < moves; ++i) rig.runtime().migrate(moved.pointer(), gpu((i + 1) % 2));
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  stop = true;
  user.join();
  moved.check(), other.check();
}

TYPED_TEST(GpuKernels, AKernelLongerThanTheLimitEndsInBusyAndMovesNothing) {
  GpuRig& rig = this->rig();
  Pattern pattern(rig, gpu(0), 2);
  pattern.write(99);
  // Creates everything that only a first move needs.
  rig.runtime().migrate(pattern.pointer(), gpu(1));
  const std::vector<Extent> before = rig.runtime().where(pattern.pointer());
  rig.runtime().launch(rig.stream(0), spin_kernel(), {}, {},
                       KernelArguments::of(std::uint64_t{400} * millisecond_ns));
  MigrateOptions options;
  options.deadline = std::chrono::milliseconds(40);
  try {
    rig.runtime().migrate(pattern.pointer(), gpu(0), options);
    ADD_FAILURE() << "moved beside a kernel that runs";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::busy) << error.what();
    ASSERT_NE(error.report(), nullptr);
    EXPECT_EQ(error.report()->bytes_moved, 0u);
  }
  EXPECT_EQ(rig.runtime().where(pattern.pointer()), before);
  pattern.check_by_cpu();
  rig.runtime().synchronize(rig.stream(0));
  pattern.check();
  rig.runtime().migrate(pattern.pointer(), gpu(0), options);
  pattern.check_at(gpu(0));
  pattern.check();
}

}  // namespace
}  // namespace vma
