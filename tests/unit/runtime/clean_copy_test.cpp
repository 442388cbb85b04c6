// Goal: read-only memory that was promoted with `keep_clean_copy` returns without a copy while work
// runs; writing, freeing and lack of room drop the copies, and nothing is lost. Method: the public
// interface on a simulated machine; hooks that run between the steps of a move.
#include "runtime/runtime_parts.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace vma {
namespace {

constexpr std::uint64_t copied_chunks = 3;
constexpr std::uint64_t words_count = copied_chunks * chunk_bytes / 8;

/// Long limits for gates, so that busy computers give up none.
RuntimeOptions patient_and_still() {
  RuntimeOptions options;
  options.policy = "stay_put";  // A scheduler that moves nothing.
  options.gate_limit = std::chrono::seconds(1);
  return options;
}

class CleanCopyTest : public testing::Test {
 protected:
  CleanCopyTest() : rig_("test-2", patient_and_still()), attached_(rig_.runtime(), rig_.stream(0)) {
    words_ = rig_.alloc(copied_chunks * chunk_bytes, host(0), chunk_bytes);
    rig_.write(words_, words_count, 1);
    read_only_ = runtime().read_only(words_);
  }

  Runtime& runtime() { return rig_.runtime(); }
  MigrationReport move(Place to, Mode mode = Mode::automatic) {
    MigrateOptions options;
    options.keep_clean_copy = true;
    options.mode = mode;
    options.max_stall = max_stall_;
    return runtime().migrate_async(words_, to, options).wait();
  }
  std::size_t copies_bytes() {
    for (const RuntimeStats::PlaceStats& place : runtime().stats().places) {
      if (place.at == host(0)) return place.copies_bytes;
    }
    return 0;
  }
  void expect_whole(std::uint64_t seed) {
    EXPECT_EQ(rig_.wrong(words_, words_count, seed), 0u);
    for (int gpu = 0; gpu < 2; ++gpu) {
      EXPECT_EQ(rig_.wrong_for(gpu, words_, words_count, seed), 0u) << "GPU " << gpu;
    }
    rig_.check_invariants();
  }

  RuntimeRig rig_;
  AttachedStream attached_;
  std::uint64_t* words_ = nullptr;
  std::optional<ReadOnly> read_only_;
  std::optional<std::chrono::microseconds> max_stall_;  // Of each gate; none: the default.
};

TEST_F(CleanCopyTest, TheWayBackIsARemapInEveryMode) {
  for (const Mode mode : {Mode::automatic, Mode::live, Mode::stopped}) {
    EXPECT_EQ(move(gpu(0)).copies_kept, 3);
    EXPECT_EQ(copies_bytes(), copied_chunks * chunk_bytes);
    const MigrationReport back = move(host(0), mode);
    EXPECT_EQ(back.bytes_remapped, copied_chunks * chunk_bytes);
    EXPECT_EQ(back.chunks_moved, 3);
    EXPECT_EQ(back.chunks_live, 0);
    EXPECT_EQ(back.phases.settle.count() + back.phases.copy.count(), 0);
    EXPECT_EQ(back.reasons.at("remapped: a clean copy lay there"), 3);
    EXPECT_EQ(copies_bytes(), 0u);
    expect_whole(1);
  }
  const RuntimeStats stats = runtime().stats();
  EXPECT_EQ(stats.copies_kept, 9u);
  EXPECT_EQ(stats.copies_used, 9u);
  EXPECT_EQ(stats.copies_dropped, 0u);
  EXPECT_EQ(stats.bytes_remapped, 3 * copied_chunks * chunk_bytes);
}

TEST_F(CleanCopyTest, AHeldMoveTakesThemToo) {
  move(gpu(0));
  EXPECT_EQ(runtime().migrate(words_, host(0)).bytes_remapped, copied_chunks * chunk_bytes);
  expect_whole(1);
}

TEST_F(CleanCopyTest, TheyGoWhenWritingIsAllowed) {
  move(gpu(0));
  { const ReadOnly inner = runtime().read_only(words_); }
  EXPECT_EQ(copies_bytes(), copied_chunks * chunk_bytes) << "it still is not";
  read_only_.reset();
  EXPECT_EQ(copies_bytes(), 0u);
  EXPECT_EQ(runtime().stats().copies_dropped, 3u);
  rig_.fill_by(0, words_, words_count, 70);
  EXPECT_EQ(move(host(0)).bytes_remapped, 0u);
  expect_whole(70);
}

// The first chunk has a gate of its own. When the second one's hook is called, its clean copy is
// already the chunk's target; the hook runs before the stop.
TEST_F(CleanCopyTest, WhatIsWrittenUnderAMoveBackIsNotLost) {
  move(gpu(0));
  max_stall_ = std::chrono::microseconds(1);
  const MoveHookRegistration hook =
      runtime().on_move(words_, {[&](const MoveEvent& event) {
                                   if (event.offset != chunk_bytes || !read_only_) return;
                                   read_only_.reset();
                                   rig_.fill_by(0, words_, words_count, 70);
                                 },
                                 {}});
  const MigrationReport back = move(host(0));
  EXPECT_EQ(back.chunks_moved, 3);
  EXPECT_EQ(back.bytes_remapped, chunk_bytes) << "the first was there already";
  EXPECT_EQ(rig_.place(words_), host(0));
  const RuntimeStats stats = runtime().stats();
  EXPECT_EQ(stats.copies_kept, 3u);
  EXPECT_EQ(stats.copies_used, 1u);
  EXPECT_EQ(stats.copies_dropped, 2u);
  expect_whole(70);
}

TEST_F(CleanCopyTest, TrimsAndCapsTakeTheirRoom) {
  move(gpu(0));
  EXPECT_GE(runtime().trim(host(0)), copied_chunks * chunk_bytes);
  EXPECT_EQ(copies_bytes(), 0u);
  EXPECT_EQ(move(host(0)).bytes_remapped, 0u);
  move(gpu(0));
  ASSERT_EQ(copies_bytes(), copied_chunks * chunk_bytes);
  runtime().set_capacity(host(0), 0);
  EXPECT_EQ(copies_bytes(), 0u);
  expect_whole(1);
}

TEST_F(CleanCopyTest, ADrainedPlaceKeepsNone) {
  // The thread that examines this stream stops for moves, too.
  const AttachedStream other(rig_.runtime(), rig_.stream(1));
  move(gpu(0));
  EXPECT_EQ(runtime().drain(host(0)).bytes_left, 0u);
  EXPECT_EQ(copies_bytes(), 0u);
  EXPECT_EQ(runtime().stats().copies_dropped, 3u);
  expect_whole(1);
}

// A network card can write regardless of the rights of slots, and the host's copy would miss that.
TEST_F(CleanCopyTest, AnExportDropsThem) {
  move(gpu(0));
  ASSERT_EQ(copies_bytes(), copied_chunks * chunk_bytes);
  const MoveHookRegistration hook = runtime().on_move(words_, {[](const MoveEvent&) {}, {}});
  runtime().note_export(words_);
  EXPECT_EQ(copies_bytes(), 0u);
  EXPECT_EQ(move(host(0)).bytes_remapped, 0u);
  expect_whole(1);
}

TEST_F(CleanCopyTest, AFreeDropsThem) {
  move(gpu(0));
  read_only_.reset();
  runtime().free(words_);
  EXPECT_EQ(copies_bytes(), 0u);
  rig_.check_invariants();
}

TEST_F(CleanCopyTest, AFreeOfWhatIsReadOnlyDropsThem) {
  move(gpu(0));
  runtime().free(words_);
  EXPECT_EQ(copies_bytes(), 0u);
  read_only_.reset();
  rig_.check_invariants();
}

// Memory brought back with its copies kept is parked again without a copy.
TEST_F(CleanCopyTest, ParkedAgainIsARemap) {
  AllocOptions options;
  options.chunk_bytes = chunk_bytes;
  options.tag = "weights";
  auto* weights =
      static_cast<std::uint64_t*>(runtime().alloc(copied_chunks * chunk_bytes, gpu(0), options));
  rig_.write(weights, words_count, 9);
  const ReadOnly nobody_writes = runtime().read_only(weights);
  ParkOptions how;
  how.how.keep_clean_copy = true;
  runtime().park("weights", how);
  EXPECT_EQ(runtime().stats().bytes_remapped, 0u);
  runtime().resume("weights", how);
  EXPECT_EQ(copies_bytes(), copied_chunks * chunk_bytes);
  runtime().park("weights", how);
  EXPECT_EQ(runtime().stats().bytes_remapped, copied_chunks * chunk_bytes);
  EXPECT_EQ(rig_.place(weights), host(0));
  EXPECT_EQ(rig_.wrong(weights, words_count, 9), 0u);
  rig_.check_invariants();
}

}  // namespace
}  // namespace vma
