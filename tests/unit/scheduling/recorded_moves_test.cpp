// Goal: moves by the program are recorded for each chunk with the time of its switch. Uses have the
// times of their launches, so a wrong time would attribute them to another place. Method: the
// public interface on a simulated machine whose scheduler runs late; then reads the file.
#include "recording/reading/recording_reader.hpp"
#include "unit/recording/record_samples.hpp"
#include "unit/runtime/scheduler_rig.hpp"
#include "unit/runtime/scoped_variable.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::seconds;

constexpr std::uint64_t chunk = SchedulerRig::chunk_bytes;

class RecordedMoves : public testing::Test {
 protected:
  struct Stretch {
    Time begin{0}, end{0};
  };

  /// Returns what is recorded while `body` runs. Places are GPUs first.
  std::vector<RecordedMove> record(const std::function<void(SchedulerRig&)>& body) {
    const TemporaryFolder folder;
    {
      const ScopedVariable variable("VMART_RECORD", folder.path().c_str());
      SchedulerRig rig("counter");
      body(rig);
      rig.pass(seconds(2));
      rig.step();
    }
    RecordingReader reader(folder / folder.files().at(0));
    std::vector<RecordedMove> moves;
    while (const RecordedEvent* event = reader.next()) {
      if (const auto* move = std::get_if<RecordedMove>(event)) moves.push_back(*move);
      if (const auto* made = std::get_if<RecordedAllocation>(event)) made_.push_back(*made);
    }
    return moves;
  }
  /// Moves chunks, then lets time pass.
  static Stretch migrate(SchedulerRig& rig, std::uint64_t* words, std::uint64_t first,
                         std::uint64_t chunks, Place to, const MigrateOptions& options = {}) {
    Stretch stretch{rig.machine().clock().now(), {}};
    rig.runtime().migrate(words, first * chunk, chunks * chunk, to, options);
    stretch.end = rig.machine().clock().now();
    rig.pass(seconds(1));
    return stretch;
  }
  static void expect(const RecordedMove& move, std::uint32_t slot, PlaceId from, PlaceId to,
                     const Stretch& stretch) {
    EXPECT_EQ(move.slot, slot);
    EXPECT_EQ(index(move.from), index(from));
    EXPECT_EQ(index(move.to), index(to));
    EXPECT_TRUE(move.moved);
    EXPECT_EQ(move.bytes, chunk);
    EXPECT_GE(move.start, stretch.begin);
    EXPECT_GT(move.end, move.start);
    EXPECT_LE(move.end, stretch.end);
  }

  const PlaceId gpu0_{0}, gpu1_{1};
  std::vector<RecordedAllocation> made_;
};

TEST_F(RecordedMoves, OfPartsAreOfTheirSlotsAndTimes) {
  Stretch early, late;
  const auto moves = record([&](SchedulerRig& rig) {
    std::uint64_t* words = rig.alloc(4, gpu(0));
    rig.step();
    early = migrate(rig, words, 2, 2, gpu(1));
    late = migrate(rig, words, 0, 1, gpu(1));
  });
  ASSERT_EQ(moves.size(), 3u);
  expect(moves[0], 2, gpu0_, gpu1_, early);
  expect(moves[1], 3, gpu0_, gpu1_, early);
  expect(moves[2], 0, gpu0_, gpu1_, late);
  for (const RecordedMove& move : moves) EXPECT_EQ(move.decision, 0u);
}

TEST_F(RecordedMoves, OfOneMigrationHaveTheTimesOfTheirSwitches) {
  Stretch stretch;
  const auto moves = record([&](SchedulerRig& rig) {
    std::uint64_t* words = rig.alloc(3, gpu(0));
    rig.step();
    MigrateOptions options;
    options.scope = StopScope::attached;
    stretch = migrate(rig, words, 0, 3, gpu(1), options);
  });
  ASSERT_EQ(moves.size(), 3u);
  for (std::uint32_t slot = 0; slot < 3; ++slot) expect(moves[slot], slot, gpu0_, gpu1_, stretch);
  EXPECT_LT(moves[0].end, moves[1].end);
  EXPECT_LT(moves[1].end, moves[2].end);
}

TEST_F(RecordedMoves, ToAndFroAreBoth) {
  Stretch there, back;
  const auto moves = record([&](SchedulerRig& rig) {
    std::uint64_t* words = rig.alloc(1, gpu(0));
    rig.step();
    there = migrate(rig, words, 0, 1, gpu(1));
    back = migrate(rig, words, 0, 1, gpu(0));
  });
  ASSERT_EQ(moves.size(), 2u);
  expect(moves[0], 0, gpu0_, gpu1_, there);
  expect(moves[1], 0, gpu1_, gpu0_, back);
}

// The record of an allocation has the places where the scheduler first sees it.
TEST_F(RecordedMoves, FromBeforeTheAllocationsRecordAreInThat) {
  Stretch late;
  const auto moves = record([&](SchedulerRig& rig) {
    std::uint64_t* words = rig.alloc(2, gpu(0));
    migrate(rig, words, 0, 1, gpu(1));
    rig.step();
    late = migrate(rig, words, 0, 2, gpu(1));
  });
  ASSERT_EQ(made_.size(), 1u);
  EXPECT_EQ(made_[0].places, (std::vector{PlaceRun{gpu1_, 1}, PlaceRun{gpu0_, 1}}));
  ASSERT_EQ(moves.size(), 1u);
  expect(moves[0], 1, gpu0_, gpu1_, late);
}

// The second allocation has the addresses of the first.
TEST_F(RecordedMoves, AreOfTheAllocationThatWasThereThen) {
  const auto moves = record([&](SchedulerRig& rig) {
    std::uint64_t* first = rig.alloc(1, gpu(0));
    rig.step();
    migrate(rig, first, 0, 1, gpu(1));
    rig.runtime().free(first);
    std::uint64_t* second = rig.alloc(1, gpu(1));
    ASSERT_EQ(first, second);
    migrate(rig, second, 0, 1, gpu(0));
    rig.step();
    migrate(rig, second, 0, 1, gpu(1));
  });
  ASSERT_EQ(made_.size(), 2u);
  EXPECT_EQ(made_[1].places, (std::vector{PlaceRun{gpu0_, 1}}));
  ASSERT_EQ(moves.size(), 2u);
  EXPECT_EQ(moves[0].allocation, made_[0].allocation);
  EXPECT_EQ(moves[1].allocation, made_[1].allocation);
}

TEST_F(RecordedMoves, OfPoliciesAreRecordedOnceWithTheirDecision) {
  Stretch own;
  const auto moves = record([&](SchedulerRig& rig) {
    std::uint64_t* words = rig.alloc(2, gpu(0));
    rig.step();
    own = migrate(rig, words, 0, 1, gpu(1));
    rig.use(words, 1, 1);
    rig.step();
    ASSERT_EQ(rig.place(words, 1), gpu(1));
  });
  ASSERT_EQ(moves.size(), 2u);
  expect(moves[0], 0, gpu0_, gpu1_, own);
  EXPECT_EQ(moves[0].decision, 0u);
  EXPECT_EQ(moves[1].slot, 1u);
  EXPECT_GT(moves[1].decision, 0u);
}

// An allocation resumed without contents goes wherever there is room.
TEST_F(RecordedMoves, WhatIsResumedElsewhereHasMovedThere) {
  ParkOptions drop;
  drop.contents = ParkContents::drop;
  const auto moves = record([&](SchedulerRig& rig) {
    std::uint64_t* words = rig.alloc(1, gpu(0), "model");
    rig.step();
    rig.runtime().park("model", drop);
    rig.runtime().set_capacity(gpu(0), 0);
    rig.runtime().resume("model");
    ASSERT_EQ(rig.place(words), gpu(1));
    rig.runtime().park("model", drop);
    rig.runtime().resume("model");
    ASSERT_EQ(rig.place(words), gpu(1));
  });
  ASSERT_EQ(moves.size(), 1u) << "it came back to where it lay";
  EXPECT_EQ(index(moves[0].from), index(gpu0_));
  EXPECT_EQ(index(moves[0].to), index(gpu1_));
  EXPECT_TRUE(moves[0].moved);
}

}  // namespace
}  // namespace vma
