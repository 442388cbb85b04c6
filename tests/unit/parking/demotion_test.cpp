// Goal: allocations and moves get room by demoting other memory, with all bytes intact; memory that
// must not move stays. Method: a simulated machine with a capped GPU.
#include "memory/move_claim.hpp"
#include "migrate/stops/copy_scopes.hpp"
#include "parking/demotion.hpp"
#include "runtime/runtime_parts.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t chunks_max = 8;  // Per GPU.

RuntimeOptions options_of_test() {
  RuntimeOptions options;
  options.gate_limit = std::chrono::seconds(1);  // Busy computers then give up no gate.
  options.cache_bytes_per_gpu = 0;
  return options;
}

class DemotionTest : public testing::Test {
 protected:
  explicit DemotionTest(const RuntimeOptions& options = options_of_test())
      : rig_("test-2", options) {
    // Moves live off gpu(1), with a stream attached and without, so that everything for live moves
    // from there exists, however the program is stopped. For live moves off gpu(0) there will be no
    // room to create it. A stream of a busy computer may arrive too late for a gate: then again.
    move_off_live();
    const AttachedStream attached(runtime(), rig_.stream(1));
    while (runtime().stats().gates == 0) move_off_live();
    leave_room();
  }
  ~DemotionTest() override { memory().on_pressure(nullptr); }

  void move_off_live() {
    std::uint64_t* words = rig_.alloc(chunk_bytes, gpu(1), chunk_bytes);
    runtime().migrate_async(words, host(0)).wait();
    runtime().free(words);
  }
  /// For so many chunks on each GPU, beside what the runtime itself has there by now.
  void leave_room() {
    for (const Place at : {gpu(0), gpu(1)}) {
      const std::uint64_t own_bytes = memory().chunks().ledger().account(at).own_bytes;
      runtime().set_capacity(at, own_bytes + chunks_max * chunk_bytes);
    }
  }
  Runtime& runtime() { return rig_.runtime(); }
  Memory& memory() { return parts_of(runtime()).machinery->memory; }
  Migrator& migrator() { return parts_of(runtime()).machinery->migrator; }
  void attach() {
    for (int gpu = 0; gpu < rig_.gpus(); ++gpu) attached_.emplace_back(runtime(), rig_.stream(gpu));
  }
  std::uint64_t* filled(std::uint64_t chunks, Place at, std::uint64_t seed) {
    std::uint64_t* words = rig_.alloc(chunks * chunk_bytes, at, chunk_bytes);
    rig_.write(words, chunks * chunk_bytes / 8, seed);
    return words;
  }
  void expect_whole(const std::uint64_t* words, std::uint64_t chunks, std::uint64_t seed) {
    EXPECT_EQ(rig_.wrong(words, chunks * chunk_bytes / 8, seed), 0u);
  }
  std::uint64_t bytes_at(const void* pointer, Place at) {
    std::uint64_t bytes = 0;
    for (const Extent& extent : runtime().where(pointer))
      bytes += extent.at == at ? extent.bytes : 0;
    return bytes;
  }
  std::uint64_t own_bytes() { return memory().chunks().ledger().account(gpu(0)).own_bytes; }
  /// Takes all of gpu(0) that programs may have, with two allocations of `bytes`.
  void fill_with_two_of(std::uint64_t bytes) {
    own_before_ = own_bytes();
    runtime().set_capacity(gpu(0), own_before_ + 2 * bytes);
    for (const std::uint64_t seed : {1, 2}) {
      two_.push_back(rig_.alloc(bytes, gpu(0), bytes));
      rig_.write(two_.back(), bytes / 8, seed);
    }
  }
  TimePoint later(std::chrono::milliseconds by) { return rig_.machine().clock().now() + by; }
  Demotion wanted(std::uint64_t chunks) {
    return {gpu(0), chunks * chunk_bytes, later(std::chrono::seconds(30)), order_};
  }
  /// The handler that a runtime without a scheduler would register.
  void make_room_by_demotion() {
    memory().on_pressure([this](Place at, std::uint64_t bytes, TimePoint until) {
      ++asked_;
      return demote(memory(), migrator(), {at, bytes, until, order_}).answer();
    });
  }

  RuntimeRig rig_;
  std::vector<AttachedStream> attached_;
  std::vector<Place> order_{host(0)};
  std::vector<std::uint64_t*> two_;
  std::uint64_t own_before_ = 0;
  int asked_ = 0;
};

TEST_F(DemotionTest, TakesWhatLayThereLongestAndNoMoreThanIsWanted) {
  attach();
  std::uint64_t* moved_last = filled(2, gpu(1), 1);
  std::uint64_t* old = filled(4, gpu(0), 2);
  std::uint64_t* young = filled(2, gpu(0), 3);
  runtime().migrate(moved_last, gpu(0));
  EXPECT_EQ(demote(memory(), migrator(), wanted(3)).bytes_moved, 3 * chunk_bytes);
  EXPECT_EQ(bytes_at(old, host(0)), 3 * chunk_bytes);
  EXPECT_EQ(demote(memory(), migrator(), wanted(2)).bytes_moved, 2 * chunk_bytes);
  EXPECT_EQ(bytes_at(old, gpu(0)), 0u);
  EXPECT_EQ(bytes_at(young, gpu(0)), chunk_bytes);
  EXPECT_EQ(bytes_at(moved_last, gpu(0)), 2 * chunk_bytes) << "it came last";
  expect_whole(old, 4, 2);
  expect_whole(young, 2, 3);
  rig_.check_invariants();
}

TEST_F(DemotionTest, TakesNothingForWhatWouldNotFitIntoTheGpu) {
  make_room_by_demotion();
  std::uint64_t* there = filled(2, gpu(0), 1);
  const std::uint64_t all = memory().topology().memory_bytes(gpu(0));
  expect_error(ErrorKind::out_of_memory, [&] { runtime().alloc(all + chunk_bytes, gpu(0)); });
  EXPECT_EQ(asked_, 0);
  EXPECT_EQ(bytes_at(there, gpu(0)), 2 * chunk_bytes);
}

// In a process of its own, where what is noted stays.
TEST_F(DemotionTest, MakesRoomWhereCopiesHaveNoGuards) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        attach();
        filled(4, gpu(0), 2);
        CopyScopes::process().note_unguarded("a test says so");
        CopyScopes::process().guarded_by(+[]() noexcept { std::_Exit(2); });  // On any thread.
        std::_Exit(demote(memory(), migrator(), wanted(3)).bytes_moved == 3 * chunk_bytes ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(DemotionTest, MovesLiveOffAPlaceThatTheCacheFills) {
  attach();
  std::uint64_t* words = filled(1, gpu(0), 7);
  runtime().reserve(gpu(0), (chunks_max - 1) * chunk_bytes, chunk_bytes);
  EXPECT_EQ(runtime().migrate_async(words, gpu(1)).wait().chunks_live, 1);
  EXPECT_GT(memory().chunks().ledger().account(gpu(0)).cached_bytes, chunk_bytes)
      << "what digests leave stays, beside the chunk that has come back";
  expect_whole(words, 1, 7);
  rig_.check_invariants();
}

TEST_F(DemotionTest, GoesLiveOffAPlaceThatProgramsFillOnceALargeChunkHasMadeRoom) {
  attach();
  make_room_by_demotion();
  fill_with_two_of(64 * chunk_bytes);  // Digests take a fourteenth of a chunk.
  std::uint64_t* third = rig_.alloc(64 * chunk_bytes, gpu(0), 64 * chunk_bytes);
  EXPECT_GT(own_bytes(), own_before_);
  for (std::uint64_t* each : two_) EXPECT_EQ(bytes_at(each, host(0)), 64 * chunk_bytes);
  EXPECT_EQ(runtime().migrate_async(third, host(0)).wait().chunks_live, 1);
  expect_whole(two_[0], 64, 1);
  expect_whole(two_[1], 64, 2);
  rig_.check_invariants();
}

TEST_F(DemotionTest, LeavesAProgramTheRoomOfWhatItMovesItself) {
  attach();
  fill_with_two_of(64 * chunk_bytes);
  EXPECT_EQ(runtime().migrate_async(two_[0], host(0)).wait().chunks_live, 0);
  EXPECT_EQ(own_bytes(), own_before_);
  rig_.alloc(64 * chunk_bytes, gpu(0), 64 * chunk_bytes);
  expect_whole(two_[0], 64, 1);
}

TEST_F(DemotionTest, LeavesTheRoomOfChunksOfWhichDigestsWouldTakeMuch) {
  attach();
  make_room_by_demotion();
  fill_with_two_of(5 * chunk_bytes);  // Digests would take nine tenths of a chunk.
  rig_.alloc(5 * chunk_bytes, gpu(0), 5 * chunk_bytes);
  EXPECT_EQ(own_bytes(), own_before_);
  EXPECT_EQ(bytes_at(two_[1], gpu(0)), 5 * chunk_bytes);
}

TEST_F(DemotionTest, LeavesWhatMustNotMove) {
  attach();
  std::uint64_t* pinned = filled(2, gpu(0), 1);
  const Pin pin = runtime().pin(pinned);
  std::uint64_t* moving = filled(2, gpu(0), 2);
  const MoveClaim claim = MoveClaim::take(memory().require(moving, "test"));
  std::uint64_t* free = filled(2, gpu(0), 3);
  EXPECT_EQ(demote(memory(), migrator(), wanted(8)).bytes_moved, 2 * chunk_bytes);
  EXPECT_EQ(bytes_at(pinned, gpu(0)), 2 * chunk_bytes);
  EXPECT_EQ(bytes_at(moving, gpu(0)), 2 * chunk_bytes);
  EXPECT_EQ(bytes_at(free, host(0)), 2 * chunk_bytes);
}

TEST_F(DemotionTest, FillsTheFirstPlaceOfTheOrderFirst) {
  attach();
  order_ = {gpu(0), gpu(1), host(0)};
  const Pin pin = runtime().pin(filled(6, gpu(1), 1));
  std::uint64_t* words = filled(6, gpu(0), 2);
  EXPECT_EQ(demote(memory(), migrator(), wanted(5)).bytes_moved, 5 * chunk_bytes);
  EXPECT_EQ(bytes_at(words, gpu(1)), 2 * chunk_bytes) << "it has room for two";
  EXPECT_EQ(bytes_at(words, host(0)), 3 * chunk_bytes);
  expect_whole(words, 6, 2);
}

/// Whether the program is suspended; otherwise it is held.
class DemotionStop : public DemotionTest, public testing::WithParamInterface<bool> {
 protected:
  DemotionStop() : DemotionTest(options_of_this()) {}

 private:
  static RuntimeOptions options_of_this() {
    RuntimeOptions options = options_of_test();
    options.suspend = GetParam();
    options.pressure_limit = std::chrono::seconds(30);  // Enough for busy computers.
    return options;
  }
};

TEST_P(DemotionStop, NeedsNoAttachedStream) {
  std::uint64_t* old = filled(6, gpu(0), 1);
  std::uint64_t* fresh = filled(5, gpu(0), 2);  // The runtime itself makes the room.
  EXPECT_EQ(bytes_at(old, gpu(0)), 3 * chunk_bytes);
  std::uint64_t* moved = filled(3, host(0), 3);
  EXPECT_EQ(runtime().migrate(moved, gpu(0)).chunks_moved, 3);
  EXPECT_EQ(bytes_at(old, gpu(0)), 0u);
  EXPECT_EQ(bytes_at(fresh, gpu(0)), 5 * chunk_bytes);
  expect_whole(old, 6, 1);
  expect_whole(fresh, 5, 2);
  expect_whole(moved, 3, 3);
  const RuntimeStats stats = runtime().stats();
  EXPECT_EQ(stats.stall_suspended.count > 0, GetParam());
  EXPECT_EQ(stats.stall_held.count > 0, !GetParam());
  rig_.check_invariants();
}

INSTANTIATE_TEST_SUITE_P(Kinds, DemotionStop, testing::Bool());

TEST_F(DemotionTest, TakesMemoryThatNoAttachedStreamMayUse) {
  std::uint64_t* theirs = filled(2, gpu(0), 1);
  std::uint64_t* ours = filled(2, gpu(0), 2);
  const AttachedStream attached(runtime(), rig_.stream(0), ours);
  EXPECT_EQ(demote(memory(), migrator(), wanted(3)).bytes_moved, 3 * chunk_bytes);
  EXPECT_EQ(bytes_at(theirs, gpu(0)), 0u);
  EXPECT_EQ(bytes_at(ours, gpu(0)), chunk_bytes);
  expect_whole(theirs, 2, 1);
  expect_whole(ours, 2, 2);
}

TEST_F(DemotionTest, MakesRoomForAnAllocation) {
  for (const bool attached : {false, true}) {
    if (attached) attach();
    std::uint64_t* old = filled(6, gpu(0), 5);
    make_room_by_demotion();
    asked_ = 0;
    std::uint64_t* fresh = filled(5, gpu(0), 9);
    EXPECT_EQ(asked_, 1);
    EXPECT_EQ(bytes_at(fresh, gpu(0)), 5 * chunk_bytes);
    expect_whole(old, 6, 5);
    expect_whole(fresh, 5, 9);
    rig_.check_invariants();
    runtime().free(old);
    runtime().free(fresh);
  }
}

TEST_F(DemotionTest, MakesRoomForASynchronousMove) {
  std::uint64_t* old = filled(6, gpu(0), 5);
  std::uint64_t* words = filled(4, gpu(1), 9);
  make_room_by_demotion();
  EXPECT_EQ(runtime().migrate(words, gpu(0)).chunks_moved, 4);
  EXPECT_EQ(asked_, 1);
  expect_whole(old, 6, 5);
  expect_whole(words, 4, 9);
  EXPECT_EQ(bytes_at(old, host(0)), 2 * chunk_bytes) << "no more than was lacking";
  rig_.check_invariants();
}

TEST_F(DemotionTest, MakesRoomForAMoveInTheBackground) {
  attach();
  for (const bool reserve_first : {false, true}) {
    leave_room();  // On a busy computer, the first move may have gone another way than those
                   // before.
    std::uint64_t* old = filled(6, gpu(0), 5);
    std::uint64_t* words = filled(4, gpu(1), 9);
    make_room_by_demotion();
    MigrateOptions options;
    options.reserve_first = reserve_first;
    EXPECT_EQ(runtime().migrate_async(words, gpu(0), options).wait().chunks_moved, 4);
    EXPECT_GT(asked_, 0);
    expect_whole(old, 6, 5);
    expect_whole(words, 4, 9);
    rig_.check_invariants();
    runtime().free(old);
    runtime().free(words);
  }
}

TEST_F(DemotionTest, MovesInBothDirectionsBetweenFullPlacesAllEnd) {
  attach();
  std::vector<std::uint64_t*> words;
  for (int i = 0; i < 4; ++i) words.push_back(filled(4, gpu(i / 2), 100 * i));
  std::mutex one_at_a_time;
  memory().on_pressure([&](Place at, std::uint64_t bytes, TimePoint until) {
    const std::lock_guard lock(one_at_a_time);
    return demote(memory(), migrator(), {at, bytes, until, order_}).answer();
  });
  std::vector<Migration> moves;
  for (int i = 0; i < 4; ++i) moves.push_back(runtime().migrate_async(words[i], gpu(1 - i / 2)));
  for (const Migration& move : moves) {
    try {
      move.wait();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::out_of_memory) << error.what();
    }
  }
  for (int i = 0; i < 4; ++i) expect_whole(words[i], 4, 100 * i);
  rig_.check_invariants();
}

TEST_F(DemotionTest, AMoveEndsAtTheLimitOrAtOnceWhereNothingComesOfIt) {
  filled(6, gpu(0), 5);
  std::uint64_t* words = filled(4, gpu(1), 9);
  for (const bool throws : {false, true}) {
    std::atomic<int> asked{0};
    memory().on_pressure([&](Place, std::uint64_t, TimePoint) {
      ++asked;
      if (throws) throw std::runtime_error("on purpose");
      return MemoryPressure::Answer::some_left;
    });
    EXPECT_EQ(kind_of_error([&] { runtime().migrate(words, gpu(0)); }), ErrorKind::out_of_memory);
    EXPECT_EQ(throws, asked == 1);
    EXPECT_EQ(bytes_at(words, gpu(1)), 4 * chunk_bytes);
    memory().on_pressure(nullptr);
  }
  const std::string text = error_text([&] { runtime().migrate(words, gpu(0)); });
  EXPECT_NE(text.find("; allocations at gpu(0): 0x"), std::string::npos) << text;
  rig_.check_invariants();
}

TEST_F(DemotionTest, AsksNobodyForRoomAtAHostNode) {
  runtime().trim(host(0));
  const std::uint64_t held = memory().chunks().ledger().account(host(0)).allocated_bytes;
  runtime().set_capacity(host(0), held);
  std::uint64_t* words = filled(2, gpu(0), 1);
  memory().on_pressure([](Place, std::uint64_t, TimePoint) {
    ADD_FAILURE() << "nothing is made room for there";
    return MemoryPressure::Answer::some_left;
  });
  EXPECT_EQ(kind_of_error([&] { runtime().migrate(words, host(0)); }), ErrorKind::out_of_memory);
}

TEST_F(DemotionTest, SaysThatOthersMoveMemory) {
  const std::uint64_t* theirs = filled(2, gpu(0), 1);
  {
    const MoveClaim claim = MoveClaim::take(memory().require(theirs, "test"));
    const Demoted demoted = demote(memory(), migrator(), wanted(1));
    EXPECT_EQ(demoted.bytes_moved, 0u);
    EXPECT_EQ(demoted.answer(), MemoryPressure::Answer::others_at_work);
  }
  EXPECT_EQ(demote(memory(), migrator(), wanted(1)).answer(), MemoryPressure::Answer::some_left);
  EXPECT_EQ(demote(memory(), migrator(), wanted(8)).answer(), MemoryPressure::Answer::some_left);
  EXPECT_EQ(demote(memory(), migrator(), wanted(8)).answer(),
            MemoryPressure::Answer::nothing_leaves);
}

TEST_F(DemotionTest, AMoveDoesNotWaitForOthersWhoAreAtWork) {
  filled(6, gpu(0), 5);
  std::uint64_t* words = filled(4, gpu(1), 9);
  int asked = 0;
  memory().on_pressure([&](Place, std::uint64_t, TimePoint) {
    ++asked;
    return MemoryPressure::Answer::others_at_work;
  });
  EXPECT_EQ(kind_of_error([&] { runtime().migrate(words, gpu(0)); }), ErrorKind::out_of_memory);
  EXPECT_EQ(asked, 1);
}

TEST_F(DemotionTest, MovesAreToldOfWhateverTheirOutcome) {
  attach();
  std::uint64_t* words = filled(4, gpu(0), 1);
  const auto allocation = memory().require(words, "test");
  std::vector<std::pair<Outcome, std::size_t>> told;
  std::mutex mutex;
  migrator().watch([&](const std::shared_ptr<Allocation>& moved, const MigrationReport& report) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(moved, allocation);
    told.emplace_back(report.outcome, report.bytes_moved);
    throw std::runtime_error("nobody minds");
  });
  runtime().migrate(words, gpu(1));
  EXPECT_EQ(told.size(), 1u);
  runtime().migrate_async(words, gpu(0)).wait();
  EXPECT_EQ(told.size(), 2u) << "before who waits goes on";
  filled(6, gpu(1), 2);
  memory().finish();
  EXPECT_EQ(kind_of_error([&] { runtime().migrate(words, gpu(1)); }), ErrorKind::out_of_memory);
  migrator().watch(nullptr);
  runtime().migrate(words, host(0));
  EXPECT_EQ(told, (std::vector<std::pair<Outcome, std::size_t>>{{Outcome::done, 4 * chunk_bytes},
                                                                {Outcome::done, 4 * chunk_bytes},
                                                                {Outcome::failed, 0}}));
}

}  // namespace
}  // namespace vma
