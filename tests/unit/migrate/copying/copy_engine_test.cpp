// Goal: bytes arrive unchanged over every route, including those through pinned buffers; a route is
// set up once, before anything is stopped; a failed call leaves no copy running.
#include "unit/migrate/moves/move_rig.hpp"

#include "base/executor.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <vector>

namespace vma {
namespace {

class CopyRoutes : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Machines, CopyRoutes, testing::Values("test-2", "test-4", "test-islands"));

TEST_P(CopyRoutes, CarryBytesBetweenAnyTwoPlaces) {
  MoveRig rig(GetParam());
  std::uint64_t seed = 1;
  for (const Place from : rig.topology().places()) {
    for (const Place to : rig.topology().places()) {
      SCOPED_TRACE(testing::Message() << to_string(from) << " to " << to_string(to));
      const Chunk source = rig.chunk(from, 3), target = rig.chunk(to, 3);
      rig.fill(source, seed);
      rig.engine().prepare(from, to, 1, CopyUnder::gate);
      const CopyEngine::Copy copy = rig.engine().enqueue(source, target, CopyUnder::gate);
      rig.engine().wait(copy);
      EXPECT_EQ(rig.wrong(target, seed), 0u);
      EXPECT_EQ(rig.wrong(source, seed), 0u);
      EXPECT_NE(rig.wrong(target, seed + 1), 0u) << "the test can tell";
      rig.unclaim(source);
      rig.unclaim(target);
      seed += 100'000;
    }
  }
}

TEST_P(CopyRoutes, CarryBytesByKernelsBetweenGpus) {
  MoveRig rig(GetParam());
  std::uint64_t seed = 1;
  int routes = 0;
  for (const Place from : rig.topology().places()) {
    for (const Place to : rig.topology().places()) {
      SCOPED_TRACE(testing::Message() << to_string(from) << " to " << to_string(to));
      rig.engine().prepare(from, to, 1, CopyUnder::hold);
      if (!rig.engine().has_kernel(from, to, CopyUnder::hold)) continue;
      const Chunk source = rig.chunk(from, 3), target = rig.chunk(to, 3);
      rig.fill(source, seed);
      rig.forget_calls();
      rig.engine().wait(
          rig.engine().enqueue(source, target, CopyUnder::hold, never, CopyBy::kernel));
      EXPECT_EQ(rig.calls(Call::copy), 0);
      EXPECT_EQ(rig.wrong(target, seed), 0u);
      EXPECT_EQ(rig.wrong(source, seed), 0u);
      rig.unclaim(source);
      rig.unclaim(target);
      seed += 100'000;
      ++routes;
    }
  }
  EXPECT_GE(routes, 2) << "GPUs that reach each other";
}

TEST(CopyEngine, CopiesWithoutTheKernelWhereItCannotBeLoaded) {
  MoveRig rig;
  rig.fail({Call::load_kernels}, {0});
  rig.engine().prepare(gpu(0), gpu(1), 1, CopyUnder::hold);
  EXPECT_FALSE(rig.engine().has_kernel(gpu(0), gpu(1), CopyUnder::hold));
  rig.fail_nothing();
  const Chunk source = rig.chunk(gpu(0), 1), target = rig.chunk(gpu(1), 1);
  rig.fill(source, 3);
  rig.engine().wait(rig.engine().enqueue(source, target, CopyUnder::hold));
  EXPECT_EQ(rig.wrong(target, 3), 0u);
  rig.unclaim(source);
  rig.unclaim(target);
}

TEST(CopyEngine, BouncesLargeChunksInManyPieces) {
  MoveRig rig("test-islands");
  const std::uint64_t pages = 5000;  // Nearly 20 MiB; the buffers hold 8 MiB.
  const Chunk source = rig.chunk(gpu(0), pages), target = rig.chunk(gpu(2), pages);
  rig.fill(source, 7);
  rig.engine().prepare(gpu(0), gpu(2), 1, CopyUnder::gate);
  rig.forget_calls();
  rig.engine().wait(rig.engine().enqueue(source, target, CopyUnder::gate));
  EXPECT_EQ(rig.wrong(target, 7), 0u);
  EXPECT_EQ(rig.calls(Call::copy), 3 * 2 + 1 /* reads it back */);
  rig.unclaim(source);
  rig.unclaim(target);
}

TEST(CopyEngine, KeepsManyBouncedCopiesApart) {
  MoveRig rig("test-islands");
  constexpr int copies = 12;
  std::vector<Chunk> sources, targets;
  std::vector<CopyEngine::Copy> under_way;
  rig.engine().prepare(gpu(1), gpu(3), 1, CopyUnder::gate);
  for (int i = 0; i < copies; ++i) {
    sources.push_back(rig.chunk(gpu(1), 4));
    targets.push_back(rig.chunk(gpu(3), 4));
    rig.fill(sources.back(), static_cast<std::uint64_t>(i) << 32);
  }
  for (int i = 0; i < copies; ++i)
    under_way.push_back(rig.engine().enqueue(sources[i], targets[i], CopyUnder::gate));
  for (const CopyEngine::Copy& copy : under_way) rig.engine().wait(copy);
  for (int i = 0; i < copies; ++i) {
    EXPECT_EQ(rig.wrong(targets[i], static_cast<std::uint64_t>(i) << 32), 0u) << i;
    rig.unclaim(sources[i]);
    rig.unclaim(targets[i]);
  }
}

TEST(CopyEngine, CopiesOnOneRouteFromManyThreads) {
  MoveRig rig("test-islands");
  ThreadedExecutor executor;
  std::vector<std::unique_ptr<Task>> tasks;
  std::atomic<std::uint64_t> wrong{0};
  for (const int to : {1, 2}) rig.engine().prepare(gpu(0), gpu(to), 1, CopyUnder::gate);
  for (std::uint64_t i = 0; i < 4; ++i) {
    tasks.push_back(executor.spawn("copier", [&rig, &wrong, i] {
      for (std::uint64_t round = 0; round < 10; ++round) {
        const std::uint64_t seed = (i * 100 + round) << 32;
        const Chunk source = rig.chunk(gpu(0), 2), target = rig.chunk(gpu(i % 2 == 0 ? 2 : 1), 2);
        rig.fill(source, seed);
        rig.engine().wait(rig.engine().enqueue(source, target, CopyUnder::gate));
        wrong += rig.wrong(target, seed);
        rig.unclaim(source);
        rig.unclaim(target);
      }
    }));
  }
  for (const auto& task : tasks) task->join();
  EXPECT_EQ(wrong, 0u);
}

TEST(CopyEngine, PreparesARouteOnceAndInContextsOfItsOwn) {
  MoveRig rig("test-islands");
  rig.forget_calls();
  rig.engine().prepare(gpu(0), gpu(1), 1, CopyUnder::gate);
  EXPECT_EQ(rig.calls(Call::create_own_context), 1);
  rig.engine().prepare(gpu(0), host(0), 1, CopyUnder::gate);
  EXPECT_EQ(rig.calls(Call::create_own_context), 1) << "a context a GPU";
  rig.engine().prepare(gpu(0), gpu(3), 1, CopyUnder::gate);
  EXPECT_EQ(rig.calls(Call::create_own_context), 2) << "a bounced route needs both";
  EXPECT_EQ(rig.calls(Call::allocate_pinned), 2);
  rig.forget_calls();
  rig.engine().prepare(gpu(0), gpu(1), 1, CopyUnder::gate);
  rig.engine().prepare(gpu(0), gpu(3), 1, CopyUnder::gate);
  EXPECT_TRUE(rig.trace().empty());
  EXPECT_EQ(rig.memory().contexts().list().size(), 4u) << "its own are not in use";
  const BoundStream spare = rig.engine().spare_stream(gpu(0), gpu(1), CopyUnder::gate);
  for (int i = 0; i < 4; ++i) EXPECT_NE(spare.context, rig.context(i));
}

TEST(CopyEngine, MakesNothingOnceARouteIsPreparedAlsoAfterAWaitThatFailed) {
  MoveRig rig("test-islands");
  for (const Place to : {gpu(1), gpu(2)}) {
    SCOPED_TRACE(to_string(to));
    const Chunk source = rig.chunk(gpu(0), 2), target = rig.chunk(to, 2);
    rig.engine().prepare(gpu(0), to, 1, CopyUnder::gate);
    rig.forget_calls();
    rig.fail({Call::wait_event}, {0});
    EXPECT_THROW(rig.engine().wait(rig.engine().enqueue(source, target, CopyUnder::gate)), Error);
    rig.fail_nothing();
    EXPECT_EQ(rig.calls(Call::create_event), 0) << "the first copy's end has its event";
    rig.engine().wait(rig.engine().enqueue(source, target, CopyUnder::gate));
    EXPECT_EQ(rig.calls(Call::create_event), 0) << "the event of a failed wait is used again";
    rig.unclaim(source);
    rig.unclaim(target);
  }
}

// The caller of `enqueue` may have the turn for slow calls, without which no route is created.
TEST(CopyEngine, CreatesNothingForACopyWithoutARoute) {
  MoveRig rig;
  const Chunk source = rig.chunk(gpu(0), 1), target = rig.chunk(gpu(1), 1);
  rig.forget_calls();
  const Error error = expect_error(ErrorKind::driver_failure,
                                   [&] { rig.engine().enqueue(source, target, CopyUnder::gate); });
  EXPECT_TRUE(says(error, "has failed")) << error.what();
  EXPECT_TRUE(rig.trace().empty());
  EXPECT_FALSE(source.busy());
  rig.unclaim(source);
  rig.unclaim(target);
}

TEST(CopyEngine, PreparesARouteOnceHoweverManyAsk) {
  MoveRig rig("test-4");
  rig.forget_calls();
  ThreadedExecutor executor;
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < 8; ++i) {
    tasks.push_back(executor.spawn(
        "asker", [&] { rig.engine().prepare(gpu(2), host(0), 1, CopyUnder::gate); }));
  }
  for (const auto& task : tasks) task->join();
  EXPECT_EQ(rig.calls(Call::create_own_context), 1);
  EXPECT_EQ(rig.calls(Call::create_stream), 2);
}

TEST(CopyEngine, LeavesNoHalfARoute) {
  for (int number = 0; number < 100; ++number) {
    SCOPED_TRACE(number);
    MoveRig rig("test-islands");
    rig.fail({}, {number});
    bool failed = false;
    try {
      rig.engine().prepare(gpu(0), gpu(2), 1, CopyUnder::gate);
    } catch (const Error&) {
      failed = true;
    }
    if (!failed) {
      EXPECT_GT(number, 8);
      return;
    }
    rig.fail_nothing();
    EXPECT_EQ(rig.memory().chunks().ledger().leaks(), 0u);
    rig.engine().prepare(gpu(0), gpu(2), 1, CopyUnder::gate);
    const Chunk source = rig.chunk(gpu(0), 1), target = rig.chunk(gpu(2), 1);
    rig.fill(source, 5);
    rig.engine().wait(rig.engine().enqueue(source, target, CopyUnder::gate));
    EXPECT_EQ(rig.wrong(target, 5), 0u);
    rig.unclaim(source);
    rig.unclaim(target);
  }
  ADD_FAILURE() << "it never got through";
}

TEST(CopyEngine, RunsNothingAfterAnEnqueueThatFailed) {
  for (const Place to : {gpu(1), gpu(2)}) {
    MoveRig rig("test-islands");
    const Chunk source = rig.chunk(gpu(0), 2), target = rig.chunk(to, 2);
    rig.fill(source, 11);
    rig.engine().prepare(gpu(0), to, 1, CopyUnder::gate);
    rig.engine().wait(rig.engine().enqueue(source, target, CopyUnder::gate));
    for (int number = 0; number < 100; ++number) {
      SCOPED_TRACE(testing::Message() << to_string(to) << " call " << number);
      rig.fill(target, 5);
      rig.fail({Call::copy, Call::record, Call::stream_wait_event, Call::create_event}, {number});
      bool failed = false;
      try {
        rig.engine().wait(rig.engine().enqueue(source, target, CopyUnder::gate));
      } catch (const Error&) {
        failed = true;
      }
      const bool fired = rig.driver().fired() > 0;
      rig.fail_nothing();
      EXPECT_EQ(failed, fired);
      if (!fired) break;
      rig.fill(target, 5);  // A copy that still runs would overwrite this.
      EXPECT_EQ(rig.wrong(target, 5), 0u);
    }
    rig.engine().wait(rig.engine().enqueue(source, target, CopyUnder::gate));
    EXPECT_EQ(rig.wrong(target, 11), 0u);
    rig.unclaim(source);
    rig.unclaim(target);
  }
}

TEST(CopyEngine, MarksChunksThatItCannotWaitFor) {
  std::set<int> all;
  for (int number = 1; number < 100; ++number) all.insert(number);
  MoveRig rig;
  const Chunk source = rig.chunk(gpu(0), 2), target = rig.chunk(gpu(1), 2);
  const Chunk other = rig.chunk(gpu(0), 1);
  rig.engine().prepare(gpu(0), gpu(1), 1, CopyUnder::gate);
  std::vector<std::byte> bytes(100);
  rig.engine().read(other, other.staging(), bytes);
  rig.fail({Call::copy, Call::record, Call::wait_stream}, all);  // The copy itself is enqueued.
  EXPECT_THROW(rig.engine().enqueue(source, target, CopyUnder::gate), Error);
  EXPECT_TRUE(source.busy());
  EXPECT_TRUE(target.busy());
  EXPECT_FALSE(other.busy());
  EXPECT_EQ(rig.memory().chunks().ledger().leaks(), 1u);
  rig.fail({Call::copy, Call::wait_stream}, all);
  const Error error = expect_error(ErrorKind::driver_failure,
                                   [&] { rig.engine().read(other, other.staging(), bytes); });
  EXPECT_TRUE(says(error, "the caller's memory may still be running")) << error.what();
  EXPECT_TRUE(other.busy());
  rig.fail_nothing();
  // After that, all earlier copies have ended.
  rig.engine().wait(rig.engine().enqueue(source, target, CopyUnder::gate));
  rig.unclaim(source);
  rig.unclaim(target);
  rig.unclaim(other);
}

TEST(CopyEngine, MarksNothingAfterAnErrorThatPasses) {
  MoveRig rig;
  const Chunk chunk = rig.chunk(gpu(0), 1);
  std::vector<std::byte> bytes(100);
  rig.engine().read(chunk, chunk.staging(), bytes);
  rig.fail({Call::wait_stream}, {0, 1, 2, 3, 4, 5, 6});
  expect_error(ErrorKind::driver_failure,
               [&] { rig.engine().write(chunk, chunk.staging(), bytes); });
  EXPECT_FALSE(chunk.busy()) << "the last try went well";
  EXPECT_EQ(rig.memory().chunks().ledger().leaks(), 0u);
  rig.unclaim(chunk);
}

TEST(CopyEngine, ReadsAndWritesAnyBytesOfAChunk) {
  MoveRig rig;
  for (const Place at : rig.topology().places()) {
    const Chunk chunk = rig.chunk(at, 2);
    rig.engine().zero(at, chunk.staging(), chunk.size_bytes());
    std::vector<std::byte> expected(chunk.size_bytes());
    for (const auto& [offset, size] :
         {std::pair{0, 1}, {1, 3}, {4095, 2}, {8191, 1}, {100, 5000}}) {
      const std::vector<std::byte> bytes(size, std::byte(size % 251 + 1));
      rig.engine().write(chunk, chunk.staging() + offset, bytes);
      std::copy(bytes.begin(), bytes.end(), expected.begin() + offset);
      std::vector<std::byte> read(size);
      rig.engine().read(chunk, chunk.staging() + offset, read);
      EXPECT_EQ(read, bytes);
    }
    std::vector<std::byte> all(chunk.size_bytes());
    rig.engine().read(chunk, chunk.staging(), all);
    EXPECT_EQ(all, expected) << to_string(at);
    rig.unclaim(chunk);
  }
}

TEST(CopyEngine, SaysWhenACopyIsDone) {
  MoveRig rig("h200x2");
  const Chunk source = rig.chunk(gpu(0), 8), target = rig.chunk(gpu(1), 8);
  rig.engine().prepare(gpu(0), gpu(1), 1, CopyUnder::gate);
  const CopyEngine::Copy copy =
      rig.engine().enqueue(source, target, CopyUnder::gate);  // 16 MiB: at least 40 us.
  EXPECT_FALSE(rig.engine().wait_until(copy, rig.machine().clock().now()));
  EXPECT_TRUE(rig.engine().wait_until(copy, rig.machine().clock().now() + std::chrono::seconds(1)));
  rig.engine().wait(copy);
  rig.unclaim(source);
  rig.unclaim(target);
}

}  // namespace
}  // namespace vma
