// Goal: memory that was created for one process only is replaced where it lies, so that it can be
// exported, and keeps its bytes. Method: two runtimes of one process on machines of their own; the
// first creates memory that cannot leave it.

#include "runtime/exports.hpp"
#include "unit/sharing/sharing_rig.hpp"

#include <vector>

namespace vma {
namespace {

class ReplacementTest : public testing::Test {
 protected:
  ReplacementTest() : words(exporter.alloc(3 * chunk_bytes, gpu(0))) {
    exporter.write(words, words_shared, 40);
  }

  void replace() { make_exportable(parts_of(exporter.runtime()), words, "test"); }
  /// Whether another process would see the same.
  bool is_shared() {
    const ExportedAllocation exported = exporter.runtime().export_allocation(words);
    void* const theirs = importer.runtime().import_allocation(exported.path());
    const auto wrong = importer.wrong(static_cast<std::uint64_t*>(theirs), words_shared, 40);
    importer.runtime().free(theirs);
    return wrong == 0;
  }
  std::uint64_t bytes_moved() { return exporter.runtime().stats().bytes_moved; }

  RuntimeRig exporter, importer;
  std::uint64_t* words;
};

TEST_F(ReplacementTest, MemoryThatCannotLeaveIsReplacedWhereItLies) {
  EXPECT_EQ(kind_of_error([&] { exporter.runtime().export_allocation(words); }),
            ErrorKind::unsupported);
  replace();
  EXPECT_EQ(bytes_moved(), 3 * chunk_bytes);
  EXPECT_EQ(exporter.place(words), gpu(0));
  EXPECT_EQ(exporter.wrong(words, words_shared, 40), 0u);
  EXPECT_TRUE(is_shared());
  exporter.check_invariants();
}

TEST_F(ReplacementTest, EachChunkStaysAtItsPlace) {
  exporter.runtime().migrate(words, chunk_bytes, chunk_bytes, host(0));
  replace();
  std::vector<Place> places;
  for (const Extent& extent : exporter.runtime().where(words)) places.push_back(extent.at);
  EXPECT_EQ(places, (std::vector<Place>{gpu(0), host(0), gpu(0)}));
  EXPECT_TRUE(is_shared());
}

TEST_F(ReplacementTest, HappensOnceAndHoldsWhereverTheMemoryMoves) {
  replace();
  replace();
  EXPECT_EQ(bytes_moved(), 3 * chunk_bytes);
  exporter.runtime().migrate(words, gpu(1));
  exporter.runtime().migrate(words, gpu(0));
  EXPECT_TRUE(is_shared());
}

/// Left by a move before the memory had to be able to leave.
TEST_F(ReplacementTest, ACleanCopyThatCannotLeaveIsNotMovedTo) {
  exporter.runtime().migrate(words, host(0));
  const ReadOnly nobody_writes = exporter.runtime().read_only(words);
  MigrateOptions options;
  options.keep_clean_copy = true;
  exporter.runtime().migrate(words, gpu(0), options);
  replace();
  exporter.runtime().migrate(words, host(0), options);
  EXPECT_TRUE(is_shared());
  exporter.check_invariants();
}

TEST_F(ReplacementTest, MemoryThatMustStayIsNotReplaced) {
  {
    const Pin pin = exporter.runtime().pin(words);
    EXPECT_EQ(kind_of_error([&] { replace(); }), ErrorKind::pinned);
  }
  EXPECT_EQ(bytes_moved(), 0u);
  replace();
  const Pin pin = exporter.runtime().pin(words);
  replace();  // There is nothing to do.
  EXPECT_TRUE(is_shared());
}

TEST_F(ReplacementTest, HooksAreToldOfEachChunk) {
  std::vector<std::string> told;
  const MoveHookRegistration hook = exporter.runtime().on_move(
      words,
      {.before = [&](const MoveEvent& event) { told.push_back(to_string(event.to)); },
       .after = [&](const MoveEvent& event) { told.push_back(event.moved ? "moved" : ""); }});
  replace();
  EXPECT_EQ(told,
            (std::vector<std::string>{"gpu(0)", "gpu(0)", "gpu(0)", "moved", "moved", "moved"}));
}

/// Takes all that is left there.
void fill_up(RuntimeRig& rig, Place at) {
  try {
    while (true) rig.alloc(chunk_bytes, at);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
  }
}

TEST_F(ReplacementTest, HooksLearnOfOneThatFails) {
  RuntimeOptions options;
  for (const Place at : {gpu(0), gpu(1), host(0)}) options.capacity_bytes[at] = 4 * chunk_bytes;
  RuntimeRig full("test-2", options);
  std::uint64_t* own = full.alloc(3 * chunk_bytes, gpu(0));
  for (const Place at : {gpu(0), gpu(1), host(0)}) fill_up(full, at);
  int moved = 0, stayed = 0;
  const MoveHookRegistration hook = full.runtime().on_move(
      own, {.before = [](const MoveEvent&) {},
            .after = [&](const MoveEvent& event) { ++(event.moved ? moved : stayed); }});
  EXPECT_EQ(kind_of_error([&] { make_exportable(parts_of(full.runtime()), own, "test"); }),
            ErrorKind::out_of_memory);
  EXPECT_EQ(moved, 0);
  EXPECT_EQ(stayed, 3 + 1 + 2 + 1);  // All at once, the first alone, elsewhere, and once more.
}

TEST_F(ReplacementTest, NeedsRoomForOneChunkAnywhere) {
  for (const std::uint64_t room : {0, 1}) {
    RuntimeOptions options;
    options.capacity_bytes[gpu(0)] = (4 + room) * chunk_bytes;  // One is the runtime's.
    RuntimeRig full("test-2", options);
    std::uint64_t* own = full.alloc(3 * chunk_bytes, gpu(0));
    full.write(own, words_shared, 90);
    const auto replace_own = [&] { make_exportable(parts_of(full.runtime()), own, "test"); };
    replace_own();
    full.runtime().export_allocation(own).close();
    const std::vector<Extent> extents = full.runtime().where(own);
    EXPECT_EQ(extents.front().at, room == 0 ? gpu(1) : gpu(0)) << "the first chunk made room";
    EXPECT_EQ(extents.back().at, gpu(0));
    EXPECT_EQ(full.wrong(own, words_shared, 90), 0u);
    full.check_invariants();
  }
}

}  // namespace
}  // namespace vma
