// Goal: each of the two ways to free waits for the right work, and is allowed from the right
// places.

#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace vma {
namespace {

TEST(Free, WaitsForTheWorkBeforeIt) {
  RuntimeRig rig;
  for (int round = 0; round < 10; ++round) {
    std::uint64_t* words = rig.alloc(65'536, gpu(0));
    rig.runtime().launch(rig.stream(1), Kernel{"", "spin", {}}, {}, {},
                         KernelArguments::of(std::uint64_t{1'000'000}));
    rig.runtime().launch(rig.stream(1), fill_kernel(), {}, {},
                         KernelArguments::of(words, std::uint64_t{8'192}, std::uint64_t{1}));
    rig.runtime().free(words);
    rig.runtime().trim(gpu(0));  // Freed memory is idle: unmapping it disturbs nobody.
    rig.runtime().synchronize(rig.stream(1));
  }
  rig.check_invariants();
}

TEST(Free, AsyncWaitsForTheStreamAndDoesNotBlock) {
  RuntimeRig rig;
  auto* gate = static_cast<std::uint64_t*>(
      rig.machine().allocate_pinned(rig.machine().retain_primary(DeviceId{0}), 8));
  std::uint64_t* words = rig.alloc(65'536, gpu(0));
  const BoundStream stream = parts_of(rig.runtime()).machinery->launcher.bind(rig.stream(1));
  const WordOperation wait{WordOperation::Kind::wait_until_at_least, address_of(gate), 1};
  rig.machine().batch(stream, {&wait, 1});
  rig.runtime().launch(rig.stream(1), fill_kernel(), {}, {},
                       KernelArguments::of(words, std::uint64_t{8'192}, std::uint64_t{1}));
  rig.runtime().free_async(words, rig.stream(1));
  EXPECT_EQ(kind_of_error([&] { rig.runtime().where(words); }), ErrorKind::unknown_pointer);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().free(words); }), ErrorKind::unknown_pointer);
  const auto allocated = [&] { return rig.runtime().stats().places.at(0).allocated_bytes; };
  EXPECT_EQ(allocated(), 65'536u);  // The kernel still needs it.
  std::atomic_ref(*gate).store(1);
  rig.runtime().synchronize(rig.stream(1));
  Poll poll;
  while (allocated() != 0) poll.pause();
  rig.check_invariants();
}

TEST(Free, AsyncThatIsPendingAtShutdownLeavesNothing) {
  RuntimeRig rig;
  auto* gate = static_cast<std::uint64_t*>(
      rig.machine().allocate_pinned(rig.machine().retain_primary(DeviceId{0}), 8));
  std::uint64_t* words = rig.alloc(65'536, gpu(0));
  const BoundStream stream = parts_of(rig.runtime()).machinery->launcher.bind(rig.stream(1));
  const WordOperation wait{WordOperation::Kind::wait_until_at_least, address_of(gate), 1};
  rig.machine().batch(stream, {&wait, 1});
  rig.runtime().free_async(words, rig.stream(1));
  rig.runtime().shutdown();
  std::atomic_ref(*gate).store(1);
}

TEST(Free, AsyncOnACapturingStreamIsRefused) {
  RuntimeRig rig;
  std::uint64_t* words = rig.alloc(8, gpu(0));
  const BoundStream stream = parts_of(rig.runtime()).machinery->launcher.bind(rig.stream(0));
  rig.machine().begin_capture(stream, CaptureMode::relaxed);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().free_async(words, rig.stream(0)); }),
            ErrorKind::invalid_argument);
  rig.machine().destroy_graph(rig.machine().end_capture(stream));
  rig.runtime().free_async(words, rig.stream(0));
}

TEST(Free, CancelsAMoveAtTheNextChunk) {
  RuntimeRig rig;
  int cancelled = 0;
  for (int round = 0; round < 200 && cancelled < 3; ++round) {
    std::uint64_t* words = rig.alloc(200 * 4096, gpu(0), 4096);
    std::atomic<bool> started{false};
    std::thread migrator([&] {
      started = true;
      try {
        rig.runtime().migrate(words, gpu(1));
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::unknown_pointer) return;
        EXPECT_EQ(error.kind(), ErrorKind::cancelled) << error.what();
        ASSERT_NE(error.report(), nullptr);
        EXPECT_EQ(error.report()->outcome, Outcome::cancelled);
        ++cancelled;
      }
    });
    Poll poll;
    while (!started || rig.runtime().stats().places.at(1).allocated_bytes == 0) {
      poll.pause();
      if (rig.runtime().where(words).back().at == gpu(1)) break;
    }
    rig.runtime().free(words);
    migrator.join();
  }
  EXPECT_GT(cancelled, 0);
  rig.check_invariants();
}

TEST(Free, OfTwoThreadsOneFrees) {
  RuntimeRig rig;
  for (int round = 0; round < 50; ++round) {
    std::uint64_t* words = rig.alloc(8192, gpu(0));
    std::atomic<int> freed{0};
    const auto free = [&] {
      try {
        rig.runtime().free(words);
        ++freed;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::unknown_pointer);
      }
    };
    std::thread first(free), second(free);
    first.join();
    second.join();
    EXPECT_EQ(freed, 1);
  }
  rig.check_invariants();
}

}  // namespace
}  // namespace vma
