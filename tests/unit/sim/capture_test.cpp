// Goal: captures become graphs that resolve addresses when they run, and fail where a real driver's
// do. Method: captures work, moves the memory, replays.
#include "driver/native_codes.hpp"
#include "support/test_mapping.hpp"
#include "unit/sim/sim_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

namespace vma {
namespace {

TEST(SimCapture, AGraphReplaysOnMemoryThatMoved) {
  SimRig rig;
  SimDriver& driver = rig.driver();
  const auto memory = rig.allocate(gpu(0), rig.page());
  const auto copied = rig.allocate(gpu(0), rig.page());
  driver.begin_capture(rig.stream(0), CaptureMode::relaxed);
  rig.launch(rig.stream(0), [&](DeviceView& view) { view.atomic_add(memory.words(), 1); });
  driver.copy(rig.stream(0), copied.address, memory.address, 8);
  driver.fill(rig.stream(0), memory.address + 8, std::byte{0x55}, 8);
  EXPECT_TRUE(driver.is_capturing(rig.stream(0)));
  const GraphHandle graph = driver.end_capture(rig.stream(0));
  EXPECT_FALSE(driver.is_capturing(rig.stream(0)));
  const ExecGraphHandle ready = driver.instantiate(graph);
  driver.destroy_graph(graph);

  rig.set_word(0, memory.address, 40);
  const ChunkHandle target = driver.create(gpu(1), rig.page());
  driver.unmap(memory.address, rig.page());
  driver.map(memory.address, rig.page(), target);
  rig.grant_all(memory.address, rig.page());
  rig.set_word(0, memory.address, 41);
  driver.launch_graph(rig.stream(0), ready);
  rig.finish(rig.stream(0));
  EXPECT_EQ(rig.word_at(1, copied.address), 42u);
  EXPECT_EQ(rig.word_at(1, memory.address + 8), 0x5555555555555555u);
  driver.destroy_exec_graph(ready);
}

TEST(SimCapture, AQuestionAboutACapturingStreamEndsTheCaptureInFailure) {
  SimRig rig;
  SimDriver& driver = rig.driver();
  driver.begin_capture(rig.stream(0), CaptureMode::global);
  EXPECT_EQ(native_of([&] { driver.query_stream(rig.stream(0)); }),
            native_stream_capture_unsupported);
  EXPECT_EQ(native_of([&] { rig.launch_spin(rig.stream(0), TimePoint{1}); }),
            native_stream_capture_invalidated);
  EXPECT_EQ(native_of([&] { driver.end_capture(rig.stream(0)); }),
            native_stream_capture_invalidated);
  EXPECT_FALSE(driver.is_capturing(rig.stream(0)));
}

TEST(SimCapture, RecordAndHoldOfTheContextFailAndEndIt) {
  SimRig rig;
  SimDriver& driver = rig.driver();
  const EventHandle own = rig.new_event(0), other = rig.new_event(1);
  for (const bool hold : {false, true}) {
    driver.begin_capture(rig.stream(0), CaptureMode::relaxed);
    const int refused = native_of([&] {
      if (hold)
        driver.hold_context(rig.context(0), other);
      else
        driver.record_context(rig.context(0), own);
    });
    EXPECT_NE(refused, 0);
    EXPECT_EQ(native_of([&] { driver.end_capture(rig.stream(0)); }),
              native_stream_capture_invalidated);
  }
}

TEST(SimCapture, AnotherStreamJoinsByAnEventAndMustComeBack) {
  SimRig rig;
  SimDriver& driver = rig.driver();
  std::uint64_t* word = rig.new_word();
  const BoundStream other = rig.new_stream(0);
  const EventHandle fork = rig.new_event(0), join = rig.new_event(0);
  for (const bool joins : {true, false}) {
    driver.begin_capture(rig.stream(0), CaptureMode::relaxed);
    driver.record(fork, rig.stream(0));
    driver.stream_wait_event(other, fork);
    EXPECT_TRUE(driver.is_capturing(other));
    rig.batch_write(other, word, 1);
    if (joins) {
      driver.record(join, other);
      driver.stream_wait_event(rig.stream(0), join);
      const GraphHandle graph = driver.end_capture(rig.stream(0));
      const ExecGraphHandle ready = driver.instantiate(graph);
      driver.launch_graph(rig.stream(0), ready);
      rig.finish(rig.stream(0));
      EXPECT_EQ(*word, 1u);
    } else {
      EXPECT_EQ(native_of([&] { driver.end_capture(rig.stream(0)); }),
                native_stream_capture_unjoined);
    }
    EXPECT_FALSE(driver.is_capturing(other));
  }
}

TEST(SimCapture, TheLegacyStreamCannotBeUsedBesideABlockingCapture) {
  SimRig rig;
  const BoundStream blocking = rig.new_stream(0, StreamKind::blocking);
  const BoundStream legacy{rig.context(0), {}};
  rig.driver().begin_capture(blocking, CaptureMode::relaxed);
  EXPECT_EQ(native_of([&] { rig.launch(legacy, [](DeviceView&) {}); }),
            native_stream_capture_implicit);
  EXPECT_EQ(native_of([&] { rig.driver().end_capture(blocking); }),
            native_stream_capture_invalidated);
}

}  // namespace
}  // namespace vma
