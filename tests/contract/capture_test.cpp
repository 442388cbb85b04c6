// Goal: which calls of other threads end a capture, and which do not. Method: one call during a
// capture of each mode, made by another thread, on the capturing stream or elsewhere.

#include "contract/contract_test.hpp"

#include <functional>
#include <thread>
#include <vector>

namespace vma {
namespace {

template <typename Machine>
class Captures : public ContractTest<Machine> {
 protected:
  struct Beside {
    std::vector<int> natives;  ///< The code that the call threw in each mode; 0 for none.
    int survived = 0;          ///< How many captures survived, of three modes.
    bool capturing = true;     ///< Whether `is_capturing` was true after each call.
  };

  /// Makes the call during a capture of a new stream of that kind, once in each mode.
  Beside beside(StreamKind kind, const std::function<void(BoundStream)>& call) {
    Driver& driver = this->driver();
    const BoundStream captured = this->rig().new_stream(this->rig().context(0), kind);
    std::uint64_t* word = this->rig().new_word();
    Beside result;
    for (const CaptureMode mode :
         {CaptureMode::global, CaptureMode::thread_local_mode, CaptureMode::relaxed}) {
      driver.begin_capture(captured, mode);
      const WordOperation write{WordOperation::Kind::write, address_of(word), 1};
      driver.batch(captured, {&write, 1});
      std::thread([&] { result.natives.push_back(native_of([&] { call(captured); })); }).join();
      result.capturing &= driver.is_capturing(captured);
      try {
        driver.destroy_graph(driver.end_capture(captured));
        ++result.survived;
      } catch (const Error& error) {
        EXPECT_EQ(error.native(), native_stream_capture_invalidated);
      }
    }
    return result;
  }
  void expect_outlived(StreamKind kind, const std::function<void(BoundStream)>& call) {
    const Beside result = beside(kind, call);
    EXPECT_EQ(result.natives, std::vector<int>(3, 0));
    EXPECT_EQ(result.survived, 3);
  }
  void expect_ended(int native, StreamKind kind, const std::function<void(BoundStream)>& call) {
    const Beside result = beside(kind, call);
    EXPECT_EQ(result.natives, std::vector<int>(3, native));
    EXPECT_EQ(result.survived, 0);
    EXPECT_TRUE(result.capturing) << "until the program ends it, the stream says that it captures";
  }
  static constexpr StreamKind kinds[2] = {StreamKind::non_blocking, StreamKind::blocking};
};
TYPED_TEST_SUITE(Captures, ContractMachines, MachineNames);

TYPED_TEST(Captures, OutliveTheQuestionsForTheContextAndForTheCaptureItself) {
  Driver& driver = this->driver();
  for (const StreamKind kind : this->kinds) {
    this->expect_outlived(kind, [&](BoundStream it) { driver.stream_context(it.handle); });
    this->expect_outlived(kind, [&](BoundStream it) { EXPECT_TRUE(driver.is_capturing(it)); });
  }
}

TYPED_TEST(Captures, AreEndedByEveryOtherQuestionForTheirStream) {
  Driver& driver = this->driver();
  constexpr int refused = native_stream_capture_unsupported;
  for (const StreamKind kind : this->kinds) {
    this->expect_ended(refused, kind, [&](BoundStream it) { driver.stream_id(it); });
    this->expect_ended(refused, kind, [&](BoundStream it) { driver.stream_kind(it); });
    this->expect_ended(refused, kind, [&](BoundStream it) { driver.query_stream(it); });
    this->expect_ended(refused, kind, [&](BoundStream it) { driver.wait_stream(it, never); });
  }
}

TYPED_TEST(Captures, OfBlockingStreamsAreSeenAtTheLegacyStreamAndEndedByWhatIsDoneThere) {
  Driver& driver = this->driver();
  const BoundStream legacy{this->rig().context(0), {}};
  const EventHandle event = this->rig().new_event(legacy.context);
  constexpr StreamKind blocking = StreamKind::blocking, free_running = StreamKind::non_blocking;
  this->expect_outlived(blocking, [&](BoundStream) { EXPECT_TRUE(driver.is_capturing(legacy)); });
  this->expect_outlived(free_running,
                        [&](BoundStream) { EXPECT_FALSE(driver.is_capturing(legacy)); });
  const std::function<void(BoundStream)> calls[] = {
      [&](BoundStream) { driver.stream_id(legacy); },
      [&](BoundStream) { driver.query_stream(legacy); },
      [&](BoundStream) { driver.record(event, legacy); },
  };
  for (const auto& call : calls) {
    this->expect_outlived(free_running, call);
    this->expect_ended(native_stream_capture_implicit, blocking, call);
  }
}

TYPED_TEST(Captures, AreEndedByMarksAndHoldsOfTheirContext) {
  Driver& driver = this->driver();
  if (!driver.has_context_hold()) GTEST_SKIP() << "SKIPPED: the driver has no context holds";
  const ContextHandle context = this->rig().context(0);
  const EventHandle event = this->rig().new_event(context);
  constexpr int refused = native_stream_capture_unsupported;
  for (const StreamKind kind : this->kinds) {
    this->expect_ended(refused, kind, [&](BoundStream) { driver.record_context(context, event); });
    this->expect_ended(refused, kind, [&](BoundStream) { driver.hold_context(context, event); });
  }
}

TYPED_TEST(Captures, OutliveWaitsForTheirContext) {
  Driver& driver = this->driver();
  const ContextHandle context = this->rig().context(0);
  for (const StreamKind kind : this->kinds) {
    this->expect_outlived(kind, [&](BoundStream) { driver.synchronize_context(context); });
    this->expect_outlived(kind, [&](BoundStream) {
      driver.free_plain(context, driver.allocate_plain(context, std::size_t{1} << 20));
    });
  }
}

TYPED_TEST(Captures, OutliveAStopAndAreEndedByALaunchOfItsGraph) {
  Driver& driver = this->driver();
  ContractRig& rig = this->rig();
  ChainStep step;
  step.words = {{WordOperation::Kind::write, address_of(rig.new_word()), 1},
                {WordOperation::Kind::wait_until_at_least, address_of(rig.new_word()), 0}};
  const ExecGraphHandle chain = driver.make_chain(rig.context(0), {&step, 1});
  for (const StreamKind kind : this->kinds) {
    this->expect_outlived(kind, [&](BoundStream it) { driver.stop(it, chain, step.words); });
    this->expect_ended(native_stream_capture_unsupported, kind,
                       [&](BoundStream it) { driver.launch_graph(it, chain); });
  }
  driver.destroy_exec_graph(chain);
}

TYPED_TEST(Captures, OutliveTheRecordOfAnEventAndAreEndedByItsQuery) {
  Driver& driver = this->driver();
  const EventHandle event = this->rig().new_event(this->rig().context(0));
  for (const StreamKind kind : this->kinds) {
    this->expect_outlived(kind, [&](BoundStream it) { driver.record(event, it); });
    this->expect_ended(native_captured_event, kind, [&](BoundStream it) {
      driver.record(event, it);
      driver.query_event(event);
    });
  }
}

TYPED_TEST(Captures, AreNamedWithoutEndingThem) {
  Driver& driver = this->driver();
  for (const StreamKind kind : this->kinds) {
    const BoundStream stream = this->rig().new_stream(this->rig().context(0), kind);
    const StreamNow before = driver.stream_now(stream.handle, 0);
    EXPECT_EQ(before.id, driver.stream_id(stream));
    EXPECT_EQ(before.capture, 0u);
    EXPECT_EQ(driver.stream_now(stream.handle, before.id).id, before.id);
    std::uint64_t first = 0;
    this->expect_outlived(kind, [&](BoundStream it) {
      const StreamNow now = driver.stream_now(it.handle, before.id);
      EXPECT_EQ(now.id, 0u);
      EXPECT_NE(now.capture, 0u);
      EXPECT_NE(now.capture, std::exchange(first, now.capture)) << "each capture has its own name";
    });
  }
}

TYPED_TEST(Captures, TellWhenTheirGraphIsGone) {
  Driver& driver = this->driver();
  const BoundStream stream = this->rig().new_stream(this->rig().context(0));
  EXPECT_NE(native_of([&] { driver.at_graph_end(stream, [] {}); }), 0) << "it does not capture";
  std::uint64_t ended = 0;
  const auto tell = [&ended] { std::atomic_ref<std::uint64_t>(ended).store(1); };
  driver.begin_capture(stream, CaptureMode::global);
  driver.at_graph_end(stream, tell);
  const GraphHandle graph = driver.end_capture(stream);
  const ExecGraphHandle ready = driver.instantiate(graph);
  driver.destroy_graph(graph);
  EXPECT_EQ(std::atomic_ref<std::uint64_t>(ended).load(), 0u) << "it can still be launched";
  driver.launch_graph(stream, ready);
  ASSERT_TRUE(this->rig().wait(stream));
  driver.destroy_exec_graph(ready);
  EXPECT_TRUE(this->rig().becomes(ended, 1));
}

}  // namespace
}  // namespace vma
