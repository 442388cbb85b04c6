// Goal: how to stop work from outside, with words that streams write and wait for and with holds of
// whole contexts, and what either does to a capture. Method: stops work, checks what still runs,
// opens.

#include "contract/contract_test.hpp"

#include <future>

namespace vma {
namespace {

template <typename Machine>
class Gates : public ContractTest<Machine> {
 protected:
  /// Whether the launched work has not ended after a time that is long for a kernel of a
  /// microsecond.
  bool stands(BoundStream stream) {
    const TimePoint soon = this->driver().clock().now() + std::chrono::milliseconds(100);
    return !this->driver().wait_stream(stream, soon);
  }
  void launch_short(BoundStream stream) {
    this->rig().launch(stream, spin_kernel(), std::uint64_t{1000});
  }
};
TYPED_TEST_SUITE(Gates, ContractMachines, MachineNames);

TYPED_TEST(Gates, AStreamArrivesStandsAndGoesOn) {
  ContractRig& rig = this->rig();
  const BoundStream stream = rig.new_stream(rig.context(0));
  rig.kernel(stream.context, spin_kernel());
  StoppedStream stopped(rig, stream);
  this->launch_short(stream);
  EXPECT_TRUE(stopped.stands());
  EXPECT_TRUE(this->stands(stream));
  stopped.open();
  EXPECT_TRUE(rig.wait(stream));
}

TYPED_TEST(Gates, TheLegacyStreamAloneHoldsTheBlockingStreamsOfItsContext) {
  ContractRig& rig = this->rig();
  const BoundStream legacy{rig.context(0), {}};
  const BoundStream blocking = rig.new_stream(rig.context(0), StreamKind::blocking);
  const BoundStream free_running = rig.new_stream(rig.context(0));
  rig.kernel(rig.context(0), spin_kernel());
  StoppedStream stopped(rig, legacy);
  ASSERT_TRUE(stopped.stands());
  this->launch_short(free_running);
  EXPECT_TRUE(rig.wait(free_running)) << "a non-blocking stream runs on";
  this->launch_short(blocking);
  EXPECT_TRUE(this->stands(blocking));
  stopped.open();
  EXPECT_TRUE(rig.wait(blocking));
  EXPECT_TRUE(rig.wait(legacy));
}

TYPED_TEST(Gates, ABatchOnACapturingStreamBecomesPartOfTheGraph) {
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  const BoundStream stream = rig.new_stream(rig.context(0));
  std::uint64_t* word = rig.new_word();
  driver.begin_capture(stream, CaptureMode::relaxed);
  const WordOperation write{WordOperation::Kind::write, address_of(word), 6};
  EXPECT_EQ(native_of([&] { driver.batch(stream, {&write, 1}); }), 0);
  EXPECT_TRUE(driver.is_capturing(stream));
  const GraphHandle graph = driver.end_capture(stream);
  EXPECT_EQ(*word, 0u) << "it has not run";
  const ExecGraphHandle ready = driver.instantiate(graph);
  EXPECT_EQ(rig.finish(stream, [&] { driver.launch_graph(stream, ready); }), 0);
  EXPECT_EQ(*word, 6u);
  driver.destroy_exec_graph(ready);
  driver.destroy_graph(graph);
}

TYPED_TEST(Gates, OurOwnCallsDisturbNoCaptureOfTheApplication) {
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  const BoundStream captured = rig.new_stream(rig.context(0));
  rig.kernel(rig.context(0), spin_kernel());
  driver.begin_capture(captured, CaptureMode::global);
  this->launch_short(captured);
  const auto work = [&] {
    const TestMapping mapping(driver, gpu(0), rig.page(), all_gpus(driver));
    EXPECT_EQ(rig.run_copy(0, mapping.address(), mapping.address() + 4096 / 2, 1024), 0);
    driver.free_plain(rig.context(0), driver.allocate_plain(rig.context(0), 4096));
    driver.free_pinned(rig.context(0), driver.allocate_pinned(rig.context(0), 4096));
    const EventHandle event = rig.new_event(rig.context(0));
    driver.record(event, rig.stream(0));
    EXPECT_TRUE(rig.wait(event));
  };
  EXPECT_EQ(native_of(work), 0) << "on the capturing thread";
  EXPECT_EQ(std::async(std::launch::async, [&] { return native_of(work); }).get(), 0);
  GraphHandle graph{};
  EXPECT_EQ(native_of([&] { graph = driver.end_capture(captured); }), 0) << "the capture lives";
  if (!is_none(graph)) driver.destroy_graph(graph);
}

TYPED_TEST(Gates, AHeldContextStandsWhateverItsStreamsAndGoesOnWithTheEvent) {
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  if (!driver.has_context_hold()) GTEST_SKIP() << "SKIPPED: the driver has no context hold";
  const BoundStream outside = rig.new_stream(rig.new_context(0));
  const BoundStream early = rig.new_stream(rig.context(0));
  // Created before anything is stopped: creating a context waits for the whole GPU.
  const BoundStream beside = rig.new_stream(rig.new_context(0));
  rig.kernel(beside.context, spin_kernel());
  rig.kernel(rig.context(0), spin_kernel());
  rig.kernel(outside.context, spin_kernel());
  const EventHandle let_go = rig.new_event(outside.context);
  const EventHandle at_rest = rig.new_event(rig.context(0));
  const EventHandle at_rest_late = rig.new_event(rig.context(0));

  StoppedStream stopped(rig, outside);
  driver.record(let_go, outside);
  rig.launch(early, spin_kernel(), std::uint64_t{3'000'000});
  driver.record_context(rig.context(0), at_rest);
  driver.hold_context(rig.context(0), let_go);
  EXPECT_TRUE(rig.wait(at_rest)) << "earlier work drains";
  this->launch_short(early);
  const BoundStream late = rig.new_stream(rig.context(0));
  this->launch_short(late);
  EXPECT_TRUE(this->stands(early));
  EXPECT_TRUE(this->stands(late)) << "a stream made later is held too";
  driver.record_context(rig.context(0), at_rest_late);
  EXPECT_FALSE(driver.query_event(at_rest_late)) << "recorded under the hold";
  this->launch_short(beside);
  EXPECT_TRUE(rig.wait(beside)) << "another context runs";

  stopped.open();
  EXPECT_TRUE(rig.wait(early));
  EXPECT_TRUE(rig.wait(late));
  EXPECT_TRUE(rig.wait(at_rest_late));
}

TYPED_TEST(Gates, RecordAndHoldFailBesideACaptureAndEndIt) {
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  if (!driver.has_context_hold()) GTEST_SKIP() << "SKIPPED: the driver has no context hold";
  const EventHandle event = rig.new_event(rig.context(0));
  rig.kernel(rig.context(0), spin_kernel());
  for (const bool hold : {false, true}) {
    const BoundStream captured = rig.new_stream(rig.context(0));
    driver.begin_capture(captured, CaptureMode::global);
    this->launch_short(captured);
    EXPECT_NE(native_of([&] {
                if (hold) {
                  driver.hold_context(rig.context(0), event);
                } else {
                  driver.record_context(rig.context(0), event);
                }
              }),
              0);
    EXPECT_NE(native_of([&] { driver.destroy_graph(driver.end_capture(captured)); }), 0);
    EXPECT_EQ(rig.finish(captured, [&] { this->launch_short(captured); }), 0) << "usable again";
  }
}

TYPED_TEST(Gates, StreamsThatStandHoldTheQueuesOfTheirContext) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  const int queues = driver.device_info(DeviceId{0}).max_queues;
  const int streams = queues + 4;
  std::uint64_t* opened = rig.new_word();
  std::vector<std::uint64_t*> arrived;
  std::vector<BoundStream> stopped;
  for (int i = 0; i < streams; ++i) {
    arrived.push_back(rig.new_word());
    stopped.push_back(rig.new_stream(rig.context(0)));
  }
  for (std::size_t i = 0; i < stopped.size(); ++i) {
    const WordOperation operations[] = {
        {WordOperation::Kind::write, address_of(arrived[i]), 1},
        {WordOperation::Kind::wait_until_at_least, address_of(opened), 1}};
    driver.batch(stopped[i], operations);
  }
  EXPECT_TRUE(this->stands(stopped.front()));
  int there = 0;
  for (std::uint64_t* word : arrived) there += std::atomic_ref(*word).load() == 1;
  EXPECT_EQ(there, queues) << "of " << streams;
  std::atomic_ref(*opened).store(1);
  for (const BoundStream stream : stopped) EXPECT_TRUE(rig.wait(stream));
}

TYPED_TEST(Gates, AWaitGivesUpAtItsDeadline) {
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  const BoundStream stream = rig.new_stream(rig.context(0));
  const EventHandle event = rig.new_event(rig.context(0));
  StoppedStream stopped(rig, stream);
  driver.record(event, stream);
  const TimePoint deadline = driver.clock().now() + std::chrono::milliseconds(5);
  EXPECT_FALSE(driver.wait_event(event, deadline));
  EXPECT_GE(driver.clock().now(), deadline);
  EXPECT_FALSE(driver.query_stream(stream));
  stopped.open();
  EXPECT_TRUE(rig.wait(event));
}

TYPED_TEST(Gates, StreamsSayWhetherTheLegacyStreamOrdersThem) {
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  const ContextHandle context = rig.context(0);
  EXPECT_EQ(driver.stream_kind(rig.new_stream(context, StreamKind::blocking)),
            StreamKind::blocking);
  EXPECT_EQ(driver.stream_kind(rig.new_stream(context, StreamKind::non_blocking)),
            StreamKind::non_blocking);
  EXPECT_EQ(driver.stream_kind(rig.new_stream(context, StreamKind::urgent)),
            StreamKind::non_blocking);
  for (const std::uint64_t built_in : {0, 1, 2}) {  // Null, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD.
    EXPECT_EQ(driver.stream_kind({context, StreamHandle{built_in}}), StreamKind::blocking)
        << built_in;
  }
}

TYPED_TEST(Gates, StreamIdsAreUnique) {
  ContractRig& rig = this->rig();
  const BoundStream first = rig.new_stream(rig.context(0));
  const BoundStream second = rig.new_stream(rig.context(0));
  const BoundStream legacy{rig.context(0), {}};
  EXPECT_NE(this->driver().stream_id(first), this->driver().stream_id(second));
  EXPECT_NE(this->driver().stream_id(first), this->driver().stream_id(legacy));
  EXPECT_EQ(this->driver().stream_context(first.handle), rig.context(0));
}

}  // namespace
}  // namespace vma
