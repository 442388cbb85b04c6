// Goal: pins, read-only scopes and exports keep memory in place, and hooks follow its moves.
// Method: the public interface on a simulated machine; hooks that record the calls.

#include "support/test_kernels.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <stdexcept>

namespace vma {
namespace {

class LivePinTest : public testing::Test {
 protected:
  LivePinTest() : rig_("test-2", patient()), attached_(rig_.runtime(), rig_.stream(0)) {
    words_ = rig_.alloc(3 * chunk_bytes, gpu(0), chunk_bytes);
    rig_.write(words_, 3 * chunk_bytes / 8, 1);
  }

  Runtime& runtime() { return rig_.runtime(); }
  MigrationReport move(Place to, const MigrateOptions& options = {}) {
    return runtime().migrate_async(words_, to, options).wait();
  }

  RuntimeRig rig_;
  AttachedStream attached_;
  std::uint64_t* words_ = nullptr;
};

TEST_F(LivePinTest, APinForbidsEveryMove) {
  std::optional<Pin> pin = runtime().pin(words_);
  EXPECT_EQ(kind_of_error([&] { move(gpu(1)); }), ErrorKind::pinned);
  EXPECT_EQ(kind_of_error([&] { runtime().migrate(words_, gpu(1)); }), ErrorKind::pinned);
  EXPECT_EQ(kind_of_error([&] { runtime().free(words_); }), ErrorKind::pinned);
  std::optional<Pin> other = runtime().pin(words_);
  pin.reset();
  EXPECT_EQ(kind_of_error([&] { move(gpu(1)); }), ErrorKind::pinned) << "pins are counted";
  other.reset();
  EXPECT_EQ(move(gpu(1)).chunks_moved, 3);
  EXPECT_EQ(runtime().migrate(words_, gpu(0)).chunks_moved, 3);
}

TEST_F(LivePinTest, AMoveWaitsForAPinIfAskedTo) {
  std::optional<Pin> pin = runtime().pin(words_);
  MigrateOptions options;
  options.wait_for_pins = true;
  const Migration migration = runtime().migrate_async(words_, gpu(1), options);
  EXPECT_FALSE(migration.wait_for(std::chrono::milliseconds(2)));
  pin.reset();
  EXPECT_EQ(migration.wait().chunks_moved, 3);
  pin = runtime().pin(words_);
  options.deadline = std::chrono::milliseconds(1);
  EXPECT_EQ(kind_of_error([&] { move(gpu(0), options); }), ErrorKind::pinned) << "not for ever";
}

TEST_F(LivePinTest, APinTakenUnderAMoveStopsItAtAChunkBorder) {
  std::promise<void> pinned;
  std::optional<Pin> pin;
  const MoveHookRegistration hook = runtime().on_move(words_, {{}, [&](const MoveEvent& event) {
                                                                 if (event.offset == 0 && !pin)
                                                                   pin = runtime().pin(words_);
                                                               }});
  MigrateOptions options;
  options.max_stall = std::chrono::microseconds(1);  // A gate for each chunk.
  EXPECT_EQ(kind_of_error([&] { move(gpu(1), options); }), ErrorKind::pinned);
  const auto extents = runtime().where(words_);
  ASSERT_EQ(extents.size(), 2u);
  EXPECT_EQ(extents.front().bytes, chunk_bytes);
  EXPECT_EQ(extents.front().at, gpu(1));
}

TEST_F(LivePinTest, ReadOnlyMemoryMovesWithoutASecondLookAndStaysReadOnly) {
  {
    const ReadOnly scope = runtime().read_only(words_);
    const MigrationReport report = move(gpu(1));
    EXPECT_EQ(report.chunks_live, 3);
    EXPECT_EQ(report.phases.settle.count(), 0);
    EXPECT_EQ(rig_.wrong_for(1, words_, 3 * chunk_bytes / 8, 1), 0u) << "reading works";
    for (const Place who : {gpu(0), gpu(1)}) {
      EXPECT_EQ(rig_.machine().access(address_of(words_), who), Access::read) << to_string(who);
    }
  }
  EXPECT_EQ(rig_.machine().access(address_of(words_), gpu(0)), Access::read_write);
  rig_.fill_by(0, words_, 3 * chunk_bytes / 8, 2);
  move(gpu(0));
  EXPECT_EQ(rig_.wrong_for(1, words_, 3 * chunk_bytes / 8, 2), 0u)
      << "what was written moved along";
}

TEST_F(LivePinTest, NobodyWritesToWhatIsReadOnly) {
  const ReadOnly scope = runtime().read_only(words_);
  const std::uint64_t word = 7;
  EXPECT_EQ(kind_of_error([&] { runtime().write(words_, std::as_bytes(std::span(&word, 1))); }),
            ErrorKind::unsupported);
}

TEST_F(LivePinTest, AHookCannotWaitForItself) {
  int refused = 0;
  const auto refuse = [&](const std::function<void()>& body) {
    refused += kind_of_error(body) == ErrorKind::invalid_argument ? 1 : 0;
  };
  const MoveHookRegistration hook =
      runtime().on_move(words_, {{}, [&](const MoveEvent& event) {
                                   if (event.offset > 0) return;
                                   refuse([&] { runtime().free(words_); });
                                   refuse([&] { runtime().migrate(words_, gpu(0)); });
                                   runtime().shutdown();  // Has no effect inside a hook.
                                 }});
  EXPECT_EQ(move(gpu(1)).chunks_moved, 3);
  EXPECT_EQ(refused, 2);
}

TEST_F(LivePinTest, ExportedMemoryMovesWithAHookThatIsToldOfAll) {
  runtime().note_export(words_);
  std::vector<std::string> heard;
  const MoveHookRegistration hook = runtime().on_move(
      words_,
      {[&](const MoveEvent& event) { heard.push_back("before " + std::to_string(event.offset)); },
       [&](const MoveEvent& event) { heard.push_back("after " + std::to_string(event.offset)); }});
  move(gpu(1));
  EXPECT_EQ(std::ranges::count_if(heard, [](const auto& it) { return it.starts_with("after"); }),
            3);
  EXPECT_EQ(std::ranges::count_if(heard, [](const auto& it) { return it.starts_with("before"); }),
            3);
}

TEST_F(LivePinTest, HooksHearOfEveryChunkBeforeAndAfter) {
  std::vector<std::string> heard;
  std::optional<MoveHookRegistration> hook =
      runtime().on_move(words_, {[&](const MoveEvent& event) {
                                   heard.push_back("before " + std::to_string(event.offset));
                                   EXPECT_EQ(event.pointer, words_);
                                   EXPECT_EQ(event.bytes, chunk_bytes);
                                   EXPECT_FALSE(event.moved);
                                 },
                                 [&](const MoveEvent& event) {
                                   heard.push_back("after " + std::to_string(event.offset) + " " +
                                                   to_string(event.moved ? event.to : event.from) +
                                                   " " + std::to_string(event.generation));
                                 }});
  move(gpu(1));
  ASSERT_EQ(heard.size(), 6u);
  for (int chunk = 0; chunk < 3; ++chunk) {
    const std::string offset = std::to_string(static_cast<std::uint64_t>(chunk) * chunk_bytes);
    const auto before = std::ranges::find(heard, "before " + offset);
    const auto after = std::ranges::find(heard, "after " + offset + " gpu(1) 1");
    EXPECT_LT(before - heard.begin(), after - heard.begin());
    EXPECT_NE(after, heard.end());
  }
  heard.clear();
  runtime().migrate(words_, host(0));
  EXPECT_EQ(heard.size(), 6u) << "the synchronous call tells them too";
  hook.reset();
  heard.clear();
  move(gpu(0));
  EXPECT_TRUE(heard.empty());
}

TEST_F(LivePinTest, AHookThatThrowsBeforeKeepsTheChunk) {
  int after = 0;
  const MoveHookRegistration hook =
      runtime().on_move(words_, {[](const MoveEvent& event) {
                                   if (event.offset > 0)
                                     throw std::runtime_error("registered elsewhere");
                                 },
                                 [&](const MoveEvent& event) { after += event.moved ? 1 : 100; }});
  const Migration migration = runtime().migrate_async(words_, gpu(1));
  EXPECT_NE(error_text([&] { migration.wait(); }).find("registered elsewhere"), std::string::npos);
  EXPECT_EQ(runtime().where(words_).back().at, gpu(0));
  EXPECT_EQ(rig_.wrong(words_, 3 * chunk_bytes / 8, 1), 0u);
  EXPECT_EQ(after % 100, migration.report().chunks_moved);
}

TEST_F(LivePinTest, ExportedMemoryStaysUntilAHookFollowsIt) {
  runtime().note_export(words_);
  EXPECT_EQ(kind_of_error([&] { move(gpu(1)); }), ErrorKind::pinned);
  {
    const MoveHookRegistration hook = runtime().on_move(words_, {{}, [](const MoveEvent&) {}});
    EXPECT_EQ(move(gpu(1)).chunks_moved, 3);
  }
  EXPECT_EQ(kind_of_error([&] { move(gpu(0)); }), ErrorKind::pinned) << "nobody follows any more";
  runtime().free(words_);
}

TEST_F(LivePinTest, AHandleOfWhatIsGoneDoesNoHarm) {
  auto rig = std::make_unique<RuntimeRig>("test-2");
  std::uint64_t* words = rig->alloc(chunk_bytes, gpu(0), chunk_bytes);
  const Pin pin = rig->runtime().pin(words);
  const ReadOnly scope = rig->runtime().read_only(words);
  const MoveHookRegistration hook = rig->runtime().on_move(words, {[](const MoveEvent&) {}, {}});
  rig.reset();
}

}  // namespace
}  // namespace vma
