// Goal: during background moves a program's work continues, its bytes stay right, and the handle
// tells what happened. Method: the public interface on simulated machines with threads.

#include "migrate/gates/attached_streams.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>
#include <thread>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LiveMoveTest : public testing::Test {
 protected:
  LiveMoveTest() : rig_("test-2", patient()) {
    for (int gpu = 0; gpu < rig_.gpus(); ++gpu) {
      attached_.emplace_back(rig_.runtime(), rig_.stream(gpu));
    }
  }
  ~LiveMoveTest() override { attached_.clear(); }

  Runtime& runtime() { return rig_.runtime(); }
  std::uint64_t* filled(std::uint64_t chunks, Place at) {
    std::uint64_t* words = rig_.alloc(chunks * chunk_bytes, at, chunk_bytes);
    rig_.write(words, chunks * chunk_bytes / 8, 7);
    return words;
  }
  void expect_whole(std::uint64_t* words, std::uint64_t chunks) {
    const std::uint64_t count = chunks * chunk_bytes / 8;
    EXPECT_EQ(rig_.wrong(words, count, 7), 0u);
    for (int gpu = 0; gpu < rig_.gpus(); ++gpu) EXPECT_EQ(rig_.wrong_for(gpu, words, count, 7), 0u);
  }

  RuntimeRig rig_;
  std::vector<AttachedStream> attached_;
};

TEST_F(LiveMoveTest, MovesBetweenAllPlacesAndKeepsTheBytes) {
  std::uint64_t* words = filled(6, gpu(0));
  for (const Place to : {gpu(1), gpu(0), host(0), gpu(1), host(0), gpu(0)}) {
    const MigrationReport report = runtime().migrate_async(words, to).wait();
    EXPECT_EQ(report.outcome, Outcome::done);
    EXPECT_EQ(report.chunks, 6);
    EXPECT_EQ(report.chunks_moved, 6);
    EXPECT_EQ(report.bytes_moved, 6 * chunk_bytes);
    EXPECT_EQ(rig_.place(words), to);
    expect_whole(words, 6);
    EXPECT_GE(report.stall.count, 1u);
    EXPECT_GT(report.stall.max.count(), 0);
    EXPECT_GT(report.wall, report.stall.max);
  }
  rig_.check_invariants();
}

TEST_F(LiveMoveTest, BetweenGpusMovesLiveAndFromTheHostStopped) {
  std::uint64_t* words = filled(4, gpu(0));
  EXPECT_EQ(runtime().migrate_async(words, gpu(1)).wait().chunks_live, 4);
  EXPECT_EQ(runtime().migrate_async(words, host(0)).wait().chunks_live, 4);
  const MigrationReport report = runtime().migrate_async(words, gpu(0)).wait();
  EXPECT_EQ(report.chunks_live, 0);
  ASSERT_EQ(report.reasons.size(), 1u);
  EXPECT_NE(report.reasons.begin()->first.find("host memory"), std::string::npos);
  EXPECT_EQ(report.reasons.begin()->second, 4);
  MigrateOptions live;
  live.mode = Mode::live;
  runtime().migrate_async(words, host(0)).wait();
  EXPECT_EQ(kind_of_error([&] { runtime().migrate_async(words, gpu(0), live).wait(); }),
            ErrorKind::unsupported);
  MigrateOptions stopped;
  stopped.mode = Mode::stopped;
  EXPECT_EQ(runtime().migrate_async(words, gpu(0), stopped).wait().chunks_live, 0);
  expect_whole(words, 4);
}

TEST_F(LiveMoveTest, WritersNeverPauseAndLoseNothing) {
  constexpr std::uint64_t chunks = 4, count = chunks * chunk_bytes / 8;
  std::uint64_t* words = filled(chunks, gpu(0));
  std::atomic<bool> stop{false};
  std::vector<std::uint64_t> added(2);
  std::vector<std::thread> writers;
  for (int gpu = 0; gpu < 2; ++gpu) {
    writers.emplace_back([&, gpu] {
      // Each GPU adds to its own words, since the kernel's addition is not atomic.
      std::uint64_t* mine = words + static_cast<std::uint64_t>(gpu) * count / 2;
      while (!stop || added[static_cast<std::size_t>(gpu)] == 0) {
        runtime().launch(rig_.stream(gpu), add_kernel(), {}, {},
                         KernelArguments::of(mine, count / 2, std::uint64_t{1}));
        ++added[static_cast<std::size_t>(gpu)];
        if (added[static_cast<std::size_t>(gpu)] % 8 == 0) runtime().synchronize(rig_.stream(gpu));
      }
      runtime().synchronize(rig_.stream(gpu));
    });
  }
  int moved = 0;
  std::uint64_t twice = 0;
  for (int round = 0; round < 20; ++round) {
    const Place to = round % 3 == 2 ? host(0) : gpu((round + 1) % 2);
    const MigrationReport report = runtime().migrate_async(words, to).wait();
    moved += report.chunks_moved;
    twice += report.bytes_copied_twice;
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_GT(moved, 0);
  std::vector<std::uint64_t> now(count);
  runtime().read(words, std::as_writable_bytes(std::span(now)));
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < count; ++i) wrong += now[i] != 7 + i + added[i < count / 2 ? 0 : 1];
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(runtime().stats().bytes_copied_twice, twice);
  rig_.check_invariants();
}

TEST_F(LiveMoveTest, AHandleTellsCancelsAndCallsBack) {
  std::uint64_t* words = filled(8, gpu(0));
  MigrateOptions options;
  options.max_stall = std::chrono::microseconds(1);  // A gate for each chunk.
  std::vector<int> told;
  std::promise<void> one_moved;
  std::optional<Migration> migration;
  options.on_progress = [&](const MigrationProgress& progress) {
    told.push_back(progress.chunks_moved);
    if (told.size() == 1) one_moved.set_value();
  };
  std::promise<void> called;
  // A blocked hook keeps the third chunk from moving until the move is cancelled.
  std::promise<void> cancelled;
  const MoveHookRegistration hook =
      runtime().on_move(words, {[&, seen = std::make_shared<int>(0)](const MoveEvent&) {
                                  if (++*seen == 3) cancelled.get_future().wait();
                                },
                                {}});
  migration = runtime().migrate_async(words, gpu(1), options);
  migration->on_done([&] { called.set_value(); });
  one_moved.get_future().wait();
  EXPECT_FALSE(migration->done());
  EXPECT_FALSE(migration->wait_for(milliseconds(1)));
  migration->cancel();
  cancelled.set_value();
  EXPECT_EQ(kind_of_error([&] { migration->wait(); }), ErrorKind::cancelled);
  EXPECT_TRUE(migration->done());
  called.get_future().wait();
  const MigrationReport report = migration->report();
  EXPECT_EQ(report.outcome, Outcome::cancelled);
  EXPECT_GE(report.chunks_moved, 1);
  EXPECT_LT(report.chunks_moved, 8);
  EXPECT_EQ(runtime().where(words).size(), 2u) << "the chunks that had moved stay there";
  EXPECT_EQ(runtime().where(words).front().bytes,
            static_cast<std::size_t>(report.chunks_moved) * chunk_bytes);
  EXPECT_TRUE(std::ranges::is_sorted(told));
  expect_whole(words, 8);
}

TEST_F(LiveMoveTest, ACallbackThatThrowsIsCountedAndChangesNothing) {
  std::uint64_t* words = filled(2, gpu(0));
  MigrateOptions options;
  options.on_progress = [](const MigrationProgress&) { throw std::runtime_error("planned"); };
  const Migration migration = runtime().migrate_async(words, gpu(1), options);
  EXPECT_EQ(migration.wait().outcome, Outcome::done);
  std::promise<void> after;
  migration.on_done([] { throw 5; });
  migration.on_done([&] { after.set_value(); });
  after.get_future().wait();
  EXPECT_EQ(runtime().stats().callbacks_failed, 3u);
}

TEST_F(LiveMoveTest, ADroppedHandleLetsTheMoveGoOn) {
  std::uint64_t* words = filled(3, gpu(0));
  std::promise<void> done;
  runtime().migrate_async(words, gpu(1)).on_done([&] { done.set_value(); });
  done.get_future().wait();
  EXPECT_EQ(rig_.place(words), gpu(1));
}

TEST_F(LiveMoveTest, FreeEndsTheMoveOfWhatItFrees) {
  for (int round = 0; round < 10; ++round) {
    std::uint64_t* words = filled(8, gpu(0));
    const Migration migration = runtime().migrate_async(words, gpu(1));
    runtime().free(words);
    EXPECT_TRUE(migration.wait_for(seconds(20)));
    try {
      migration.wait();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::cancelled) << error.what();
    }
    rig_.check_invariants();
  }
}

TEST_F(LiveMoveTest, SeveralMovesOfManyAllocationsRunAtOnce) {
  std::vector<std::uint64_t*> all;
  std::vector<Migration> moves;
  for (int i = 0; i < 8; ++i) all.push_back(filled(3, gpu(i % 2)));
  for (int i = 0; i < 8; ++i) {
    moves.push_back(runtime().migrate_async(all[static_cast<std::size_t>(i)], gpu((i + 1) % 2)));
    moves.push_back(runtime().migrate_async(all[static_cast<std::size_t>(i)], host(0)));
  }
  for (const Migration& move : moves) EXPECT_EQ(move.wait().outcome, Outcome::done);
  for (std::uint64_t* words : all) {
    EXPECT_EQ(rig_.place(words), host(0)) << "a later move of the same memory queues behind";
    expect_whole(words, 3);
  }
  rig_.check_invariants();
}

TEST_F(LiveMoveTest, TheSynchronousCallMovesLiveWhenAskedTo) {
  std::uint64_t* words = filled(2, gpu(0));
  MigrateOptions options;
  options.scope = StopScope::attached;
  options.mode = Mode::live;
  EXPECT_EQ(runtime().migrate(words, gpu(1), options).chunks_live, 2);
  options.paranoid = true;
  EXPECT_EQ(runtime().migrate(words, gpu(0), options).chunks_live, 2);
  expect_whole(words, 2);
}

TEST_F(LiveMoveTest, UnderAHoldInTheBackground) {
  std::uint64_t* words = filled(4, gpu(0));
  attached_.clear();
  MigrateOptions options;
  options.scope = StopScope::hold;
  const MigrationReport report = runtime().migrate_async(words, gpu(1), options).wait();
  EXPECT_EQ(report.chunks_moved, 4);
  EXPECT_EQ(report.chunks_live, 0);
  EXPECT_EQ(report.stall.count, 1u);
  expect_whole(words, 4);
}

TEST_F(LiveMoveTest, AFullTargetMovesNothingWhenRoomIsReservedFirst) {
  RuntimeOptions options = patient();
  options.capacity_bytes[gpu(1)] = 16 * chunk_bytes;
  options.cache_bytes_per_gpu = 0;
  RuntimeRig rig("test-2", options);
  const AttachedStream attached(rig.runtime(), rig.stream(0));
  std::uint64_t* words = rig.alloc(20 * chunk_bytes, gpu(0), chunk_bytes);
  rig.write(words, 20 * chunk_bytes / 8, 3);
  MigrateOptions reserve;
  reserve.reserve_first = true;
  EXPECT_EQ(kind_of_error([&] { rig.runtime().migrate_async(words, gpu(1), reserve).wait(); }),
            ErrorKind::out_of_memory);
  EXPECT_EQ(rig.place(words), gpu(0));
  const Migration partly = rig.runtime().migrate_async(words, gpu(1));
  EXPECT_EQ(kind_of_error([&] { partly.wait(); }), ErrorKind::out_of_memory);
  EXPECT_EQ(partly.report().outcome, Outcome::partly);
  EXPECT_GT(partly.report().chunks_moved, 0);
  EXPECT_EQ(rig.wrong(words, 20 * chunk_bytes / 8, 3), 0u);
  rig.check_invariants();
}

TEST_F(LiveMoveTest, ShutdownInMidMoveEndsIt) {
  auto rig = std::make_unique<RuntimeRig>("test-2");
  const Stream stream = rig->stream(0);
  rig->runtime().attach(stream);
  std::uint64_t* words = rig->alloc(64 * chunk_bytes, gpu(0), chunk_bytes);
  const Migration migration = rig->runtime().migrate_async(words, gpu(1));
  rig->runtime().shutdown();
  EXPECT_TRUE(migration.done());
  rig.reset();
  EXPECT_TRUE(migration.done()) << "a handle outlives its runtime";
  EXPECT_TRUE(migration.wait_for(seconds(1)));
}

TEST_F(LiveMoveTest, StreamsThatWereDestroyedAreNoticed) {
  std::uint64_t* words = filled(1, gpu(0));
  const Stream gone = runtime().make_stream(gpu(0));
  runtime().attach(gone);
  runtime().destroy_stream(gone);
  EXPECT_EQ(kind_of_error([&] { runtime().migrate_async(words, gpu(1)).wait(); }),
            ErrorKind::invalid_argument);
  EXPECT_EQ(rig_.place(words), gpu(0));
  EXPECT_EQ(runtime().migrate_async(words, gpu(1)).wait().chunks_moved, 1) << "it is detached now";
}

TEST_F(LiveMoveTest, AnAttachmentEndsWithItsAllocation) {
  attached_.clear();
  std::uint64_t* words = filled(1, gpu(0));
  runtime().attach(rig_.stream(0), words);
  EXPECT_EQ(runtime().migrate_async(words, gpu(1)).wait().chunks_moved, 1);
  std::uint64_t* others = filled(1, gpu(0));
  const AttachedStreams& attached = parts_of(runtime()).machinery->migrator.attached();
  const auto begin_of = [](void* memory) {
    return Address{reinterpret_cast<std::uintptr_t>(memory)};
  };
  EXPECT_TRUE(attached.any(begin_of(words)));
  EXPECT_FALSE(attached.any(begin_of(others))) << "for that one alone";
  EXPECT_EQ(runtime().migrate_async(others, gpu(1)).wait().chunks_live, 1) << "by a hold";
  runtime().free(words);
  std::uint64_t* next = filled(1, gpu(1));
  ASSERT_EQ(next, words) << "from the cache, at the same addresses";
  EXPECT_FALSE(attached.any(begin_of(next)));
}

TEST_F(LiveMoveTest, AtGatesACaptureEndsInBusyAndIsNotDisturbed) {
  RuntimeOptions options = without_suspension(patient());
  options.gate_retries = 1;
  RuntimeRig rig("test-2", options);
  Driver& driver = rig.machine();
  const Stream stream = rig.stream(0);
  rig.runtime().attach(stream);
  std::uint64_t* words = rig.alloc(chunk_bytes, gpu(0), chunk_bytes);
  const auto handle = StreamHandle{reinterpret_cast<std::uint64_t>(stream)};
  const BoundStream bound{driver.stream_context(handle), handle};
  driver.begin_capture(bound, CaptureMode::relaxed);
  const Migration migration = rig.runtime().migrate_async(words, gpu(1));
  EXPECT_EQ(kind_of_error([&] { migration.wait(); }), ErrorKind::busy);
  // Refusals because of a capture do not count as tries: the deadline ends the move.
  const int refused = migration.report().reasons.at("capture");
  EXPECT_GE(refused, 2);
  EXPECT_EQ(migration.report().retries, refused);
  EXPECT_EQ(rig.place(words), gpu(0));
  driver.destroy_graph(driver.end_capture(bound));
  EXPECT_EQ(rig.runtime().migrate_async(words, gpu(1)).wait().chunks_moved, 1);
  EXPECT_EQ(rig.runtime().stats().gates_given_up_by_reason.at("capture"),
            static_cast<std::uint64_t>(refused));
}

TEST_F(LiveMoveTest, GoesOnBesideACaptureAndDoesNotDisturbIt) {
  const StreamHandle handle{reinterpret_cast<std::uint64_t>(rig_.stream(0))};
  const BoundStream bound{rig_.machine().stream_context(handle), handle};
  std::uint64_t* words = filled(2, gpu(0));
  rig_.machine().begin_capture(bound, CaptureMode::relaxed);
  const MigrationReport report = runtime().migrate_async(words, gpu(1)).wait();
  EXPECT_EQ(report.chunks_moved, 2);
  EXPECT_EQ(report.stop, StopKind::suspension);
  rig_.machine().destroy_graph(rig_.machine().end_capture(bound));
  expect_whole(words, 2);
}

}  // namespace
}  // namespace vma
