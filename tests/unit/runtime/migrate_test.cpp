// Goal: `migrate` keeps its promises: the pointer and the bytes stay the same, and every GPU
// reaches them before and after; and it refuses what it must.

#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

constexpr std::uint64_t count = 5'120;  // In words: five chunks of 8 KiB.

class Migrate : public testing::TestWithParam<const char*> {};

TEST_P(Migrate, BetweenAllPlacesKernelsOfEveryGpuReachThePointer) {
  RuntimeRig rig(GetParam());
  const bool islands = std::string(GetParam()) == "test-islands";
  std::uint64_t* words = rig.alloc(count * 8, gpu(0));
  std::uint64_t seed = 100;
  rig.fill_by(0, words, count, seed);
  for (const Place from : rig.runtime().places()) {
    for (const Place to : rig.runtime().places()) {
      rig.runtime().migrate(words, from);
      const MigrationReport report = rig.runtime().migrate(words, to);
      EXPECT_EQ(report.outcome, Outcome::done);
      EXPECT_EQ(report.bytes_moved, from == to ? 0 : count * 8);
      EXPECT_EQ(rig.place(words), to);
      for (int reader = 0; reader < rig.gpus(); ++reader) {
        const bool reaches =
            !islands || to.kind == Place::Kind::host || to.ordinal / 2 == reader / 2;
        EXPECT_EQ(rig.machine().access(address_of(words), gpu(reader)),
                  reaches ? Access::read_write : Access::none);
        if (!reaches) continue;
        EXPECT_EQ(rig.wrong_for(reader, words, count, seed), 0u) << to_string(to);
        rig.fill_by(reader, words, count, ++seed);
      }
      EXPECT_EQ(rig.wrong(words, count, seed), 0u);
    }
  }
  rig.check_invariants();
}

INSTANTIATE_TEST_SUITE_P(Machines, Migrate, testing::Values("test-2", "test-4", "test-islands"));

TEST(MigrateRange, IsRoundedOutToChunks) {
  RuntimeRig rig;
  std::uint64_t* words = rig.alloc(count * 8, gpu(0));
  rig.fill_by(1, words, count, 7);
  const MigrationReport report = rig.runtime().migrate(words, 8191, 2, gpu(1));
  EXPECT_EQ(report.offset, 0u);
  EXPECT_EQ(report.bytes_asked, 2u * 8192);
  EXPECT_EQ(report.bytes_moved, 2u * 8192);
  EXPECT_EQ(report.chunks, 2);
  EXPECT_EQ(report.route, "gpu(0)->gpu(1)");
  const AttachedStream attached(rig.runtime(), rig.stream(0));
  const MigrationReport last = rig.runtime().migrate_async(words, 3 * 8192 + 1, 1, gpu(0)).wait();
  EXPECT_EQ(last.offset, 3u * 8192);
  EXPECT_EQ(last.bytes_asked, 8192u);
  EXPECT_EQ(last.bytes_moved, 0u) << "it lies there";
  EXPECT_EQ(rig.runtime().migrate(words, 3 * 8192 + 1, 1, gpu(0)).offset, 3u * 8192);
  const std::vector<Extent> extents = rig.runtime().where(words);
  ASSERT_EQ(extents.size(), 2u);
  EXPECT_EQ(extents[0], (Extent{0, 2 * 8192, gpu(1), 1}));
  EXPECT_EQ(extents[1], (Extent{2 * 8192, count * 8 - 2 * 8192, gpu(0), 0}));
  EXPECT_EQ(rig.wrong_for(0, words, count, 7), 0u);
  // The rest moves; chunks already there stay.
  EXPECT_EQ(rig.runtime().migrate(words, gpu(1)).bytes_moved, count * 8 - 2 * 8192);
  EXPECT_EQ(rig.wrong_for(0, words, count, 7), 0u);
}

TEST(MigrateRange, OutsideIsRefused) {
  RuntimeRig rig;
  std::uint64_t* words = rig.alloc(count * 8, gpu(0));
  const std::size_t size = rig.runtime().size(words);
  const auto refused = [&](std::size_t offset, std::size_t bytes) {
    EXPECT_EQ(kind_of_error([&] { rig.runtime().migrate(words, offset, bytes, gpu(1)); }),
              ErrorKind::invalid_argument)
        << offset << ' ' << bytes;
  };
  refused(0, 0);
  refused(0, size + 1);
  refused(size, 1);
  refused(size + 1, 0);
  refused(1, SIZE_MAX);
  refused(SIZE_MAX, 2);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().migrate(words, gpu(5)); }),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().migrate(words, host(-1)); }),
            ErrorKind::invalid_argument);
  MigrateOptions live;
  live.mode = Mode::live;
  EXPECT_EQ(kind_of_error([&] { rig.runtime().migrate(words, gpu(1), live); }),
            ErrorKind::unsupported);
  EXPECT_EQ(rig.place(words), gpu(0));
}

TEST(MigrateRefused, WhatMayNotMove) {
  RuntimeRig rig;
  AllocOptions options;
  options.movable = false;
  void* fixed = rig.runtime().alloc(8, gpu(0), options);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().migrate(fixed, gpu(1)); }), ErrorKind::pinned);
  EXPECT_EQ(rig.place(fixed), gpu(0));
  rig.runtime().free(fixed);
  // The next allocation of this size may move, although it reuses the same memory.
  void* free_to_go = rig.runtime().alloc(8, gpu(0));
  rig.runtime().migrate(free_to_go, gpu(1));
}

TEST(MigrateRefused, AFullTargetBeforeAnythingIsStopped) {
  RuntimeOptions options;
  options.capacity_bytes[gpu(1)] = 40'000;
  RuntimeRig rig("test-2", options);
  std::uint64_t* words = rig.alloc(count * 8, gpu(0));
  rig.fill_by(0, words, count, 3);
  // A kernel runs meanwhile: if anything were stopped, the call would have to wait for it.
  rig.runtime().launch(rig.stream(0), Kernel{"", "spin", {}}, {}, {},
                       KernelArguments::of(std::uint64_t{3'000'000'000}));
  const TimePoint before = rig.machine().clock().now();
  try {
    rig.runtime().migrate(words, gpu(1));
    ADD_FAILURE() << "it does not fit";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    ASSERT_NE(error.report(), nullptr);
    EXPECT_EQ(error.report()->outcome, Outcome::failed);
    EXPECT_EQ(error.report()->bytes_moved, 0u);
  }
  EXPECT_LT(rig.machine().clock().now() - before, std::chrono::milliseconds(100));
  EXPECT_EQ(rig.place(words), gpu(0));
}

TEST(MigrateRefused, ReserveFirstIsAllOrNothing) {
  RuntimeOptions making_no_room;
  making_no_room.pressure_limit = std::chrono::milliseconds(0);
  RuntimeRig rig("test-2", making_no_room);
  // The GPU itself, not the books, has no room: 64 MiB, most of it allocated.
  std::vector<std::uint64_t*> ballast;
  for (int i = 0; i < 60; ++i) ballast.push_back(rig.alloc(1 << 20, gpu(1), 1 << 19));
  std::uint64_t* words = rig.alloc(8 << 20, gpu(0), 1 << 19);
  MigrateOptions options;
  options.reserve_first = true;
  EXPECT_EQ(kind_of_error([&] { rig.runtime().migrate(words, gpu(1), options); }),
            ErrorKind::out_of_memory);
  EXPECT_EQ(rig.place(words), gpu(0));
  rig.check_invariants();
  // A move that the GPU has no room for is refused even without the option, since the size is
  // known.
  EXPECT_EQ(kind_of_error([&] { rig.runtime().migrate(words, gpu(1)); }), ErrorKind::out_of_memory);
  EXPECT_EQ(rig.place(words), gpu(0));
  rig.check_invariants();
}

TEST(MigrateBusy, HoldsLeaveEverythingInPlaceIfAKernelNeverEnds) {
  RuntimeRig rig("test-2", without_suspension());
  std::uint64_t* words = rig.alloc(count * 8, gpu(0));
  rig.fill_by(0, words, count, 3);
  auto* word = static_cast<std::uint64_t*>(
      rig.machine().allocate_pinned(rig.machine().retain_primary(DeviceId{0}), 8));
  const ContextHandle context = rig.machine().retain_primary(DeviceId{0});
  const BoundStream stuck = rig.machine().create_stream(context, StreamKind::non_blocking);
  const WordOperation wait{WordOperation::Kind::wait_until_at_least, address_of(word), 1};
  rig.machine().batch(stuck, {&wait, 1});
  const std::uint64_t mapping = rig.machine().pointer_info(address_of(words)).buffer_id;
  MigrateOptions options;
  options.deadline = std::chrono::milliseconds(50);
  const TimePoint before = rig.machine().clock().now();
  EXPECT_EQ(kind_of_error([&] { rig.runtime().migrate(words, gpu(1), options); }), ErrorKind::busy);
  EXPECT_LT(rig.machine().clock().now() - before, std::chrono::milliseconds(60));
  EXPECT_EQ(rig.machine().pointer_info(address_of(words)).buffer_id, mapping);
  // Other work of the context continues.
  EXPECT_EQ(rig.wrong_for(0, words, count, 3), 0u);
  std::atomic_ref(*word).store(1);
  rig.machine().wait_stream(stuck, never);
  EXPECT_EQ(rig.runtime().migrate(words, gpu(1), options).outcome, Outcome::done);
  EXPECT_EQ(rig.wrong_for(0, words, count, 3), 0u);
}

TEST(MigrateSuspended, WaitsForNoWorkAndDisturbsNoCapture) {
  RuntimeRig rig;
  std::uint64_t* words = rig.alloc(count * 8, gpu(0));
  rig.fill_by(0, words, count, 3);
  const ContextHandle context = rig.machine().retain_primary(DeviceId{0});
  const BoundStream stuck = rig.machine().create_stream(context, StreamKind::non_blocking);
  const BoundStream captures = rig.machine().create_stream(context, StreamKind::non_blocking);
  auto* word = static_cast<std::uint64_t*>(rig.machine().allocate_pinned(context, 8));
  const WordOperation wait{WordOperation::Kind::wait_until_at_least, address_of(word), 1};
  rig.machine().batch(stuck, {&wait, 1});
  rig.machine().begin_capture(captures, CaptureMode::relaxed);
  for (const Place to : {gpu(1), host(0), gpu(0), gpu(1)}) {
    const MigrationReport report = rig.runtime().migrate(words, to);
    EXPECT_EQ(report.outcome, Outcome::done);
    EXPECT_EQ(report.stop, StopKind::suspension);
    EXPECT_EQ(rig.wrong_for(0, words, count, 3), 0u);
  }
  rig.machine().destroy_graph(rig.machine().end_capture(captures));
  std::atomic_ref(*word).store(1);
  rig.machine().wait_stream(stuck, never);
}

TEST(MigrateBusy, ALimitOfAgesIsNoOverflow) {
  RuntimeRig rig;
  std::uint64_t* words = rig.alloc(8, gpu(0));
  MigrateOptions options;
  options.deadline = std::chrono::milliseconds::max();
  EXPECT_EQ(rig.runtime().migrate(words, gpu(1), options).outcome, Outcome::done);
  RuntimeOptions open;
  open.hold_limit = std::chrono::milliseconds::max();
  EXPECT_EQ(kind_of_error([&] { const RuntimeRig other("test-2", open); }),
            ErrorKind::invalid_argument);
}

TEST(MigrateCapture, EndsHoldsInATypedError) {
  RuntimeRig rig("test-2", without_suspension());
  std::uint64_t* words = rig.alloc(count * 8, gpu(0));
  rig.fill_by(0, words, count, 3);
  const ContextHandle context = rig.machine().retain_primary(DeviceId{0});
  const BoundStream stream = rig.machine().create_stream(context, StreamKind::non_blocking);
  rig.machine().begin_capture(stream, CaptureMode::relaxed);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().migrate(words, gpu(1)); }), ErrorKind::unsupported);
  EXPECT_EQ(rig.place(words), gpu(0));
  EXPECT_THROW(rig.machine().end_capture(stream), Error);
  rig.runtime().migrate(words, gpu(1));
  EXPECT_EQ(rig.wrong_for(0, words, count, 3), 0u);
}

TEST(MigrateUnheld, MovesOnTheCallersWord) {
  RuntimeRig rig;
  std::uint64_t* words = rig.alloc(count * 8, gpu(0));
  rig.fill_by(0, words, count, 3);
  MigrateOptions options;
  options.nothing_runs = true;
  const MigrationReport report = rig.runtime().migrate(words, host(0), options);
  EXPECT_EQ(report.outcome, Outcome::done);
  EXPECT_EQ(report.stall.max.count(), 0);
  EXPECT_EQ(rig.wrong_for(1, words, count, 3), 0u);
}

class MigrateOrder : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Suspending, MigrateOrder, testing::Bool());

TEST_P(MigrateOrder, WorkBeforeAndAfterIsCovered) {
  const bool suspends = GetParam();
  RuntimeRig rig("test-2", suspends ? RuntimeOptions{} : without_suspension());
  std::uint64_t* words = rig.alloc(count * 8, gpu(0));
  rig.write(words, count, 0);
  Place to = gpu(1);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    // Enqueued without waiting, so that the move comes in between.
    for (int g = 0; g < rig.gpus(); ++g) {
      rig.runtime().launch(rig.stream(g), Kernel{"", "spin", {}}, {}, {},
                           KernelArguments::of(std::uint64_t{100'000}));
    }
    rig.runtime().launch(rig.stream(0), add_kernel(), {}, {},
                         KernelArguments::of(words, count, std::uint64_t{1}));
    EXPECT_EQ(rig.runtime().migrate(words, to).outcome, Outcome::done);
    if (suspends) rig.runtime().synchronize(rig.stream(0));  // It may still run.
    rig.runtime().launch(rig.stream(1), add_kernel(), {}, {},
                         KernelArguments::of(words, count, std::uint64_t{1}));
    rig.runtime().synchronize(rig.stream(1));
    ASSERT_EQ(rig.wrong(words, count, 2 * round), 0u);
    to = to == gpu(1) ? host(0) : to == host(0) ? gpu(0) : gpu(1);
  }
}

}  // namespace
}  // namespace vma
