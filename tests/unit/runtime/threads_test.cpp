// Goal: calls of many threads on the same and on different allocations each succeed or throw a
// typed error, and leave the books right.
#include "base/executor.hpp"
#include "unit/runtime/service_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <vector>

namespace vma {
namespace {

void run_threads(int count, const std::function<void(int)>& body) {
  ThreadedExecutor executor;
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < count; ++i) tasks.push_back(executor.spawn("user", [&, i] { body(i); }));
  for (const auto& task : tasks) task->join();
}

TEST(Threads, UseAllocationsOfTheirOwn) {
  ServiceRig rig("test-4");
  std::atomic<std::uint64_t> wrong{0};
  run_threads(4, [&](int thread) {
    std::mt19937 random(static_cast<unsigned>(thread));
    const std::vector<Place> places = rig.runtime().places();
    for (std::uint64_t round = 0; round < 15; ++round) {
      const std::uint64_t bytes = (1 + random() % 6) * page;
      void* pointer = rig.runtime().alloc(bytes, places[random() % places.size()]);
      rig.write(pointer, bytes, round << 20);
      rig.runtime().migrate(pointer, places[random() % places.size()]);
      rig.fill_on(thread, pointer, bytes, round << 30);
      rig.runtime().migrate(pointer, places[random() % places.size()]);
      wrong += rig.wrong(pointer, bytes, round << 30);
      if (round % 2 == 0) {
        rig.runtime().free(pointer);
      } else {
        rig.runtime().free_async(pointer, rig.stream(thread));
      }
    }
  });
  EXPECT_EQ(wrong, 0u);
  rig.check_invariants();
}

TEST(Threads, MoveReadAndWriteOneAllocation) {
  ServiceRig rig;
  constexpr std::uint64_t bytes = 6 * page;
  AllocOptions options;
  options.chunk_bytes = 2 * page;
  void* pointer = rig.runtime().alloc(bytes, gpu(0), options);
  rig.write(pointer, bytes, 1);
  std::atomic<std::uint64_t> wrong{0};
  run_threads(4, [&](int thread) {
    const std::vector<Place> places = rig.runtime().places();
    for (std::size_t round = 0; round < 20; ++round) {
      if (thread == 0) rig.runtime().migrate(pointer, places[round % places.size()]);
      if (thread == 1) rig.runtime().migrate(pointer, 2 * page, page, places[(round + 1) % 3]);
      if (thread == 2) wrong += rig.wrong(pointer, bytes, 1);
      if (thread == 3) rig.write(pointer, bytes, 1), rig.runtime().where(pointer);
    }
  });
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(rig.wrong(pointer, bytes, 1), 0u);
  rig.check_invariants();
}

TEST(Threads, FreeOnceWhileOthersMoveReadAndFree) {
  ServiceRig rig;
  for (int round = 0; round < 20; ++round) {
    void* pointer = rig.runtime().alloc(4 * page, gpu(0));
    std::atomic<int> freed{0};
    run_threads(4, [&](int thread) {
      try {
        if (thread == 0) rig.runtime().migrate(pointer, gpu(1));
        if (thread == 1) rig.wrong(pointer, 4 * page, 0);
        if (thread >= 2) rig.runtime().free(pointer), ++freed;
      } catch (const Error& error) {
        const bool ended = thread == 0 && error.kind() == ErrorKind::cancelled;  // By a free.
        EXPECT_TRUE(ended || error.kind() == ErrorKind::unknown_pointer) << error.what();
      }
    });
    EXPECT_EQ(freed, 1);
    rig.check_invariants();
  }
  EXPECT_EQ(rig.runtime().stats().allocations, 1u) << "the rig's own";
}

}  // namespace
}  // namespace vma
