// Goal: contexts behave as in sections 2 and 3 of the facts: what a hold covers, what a record
// waits for, and what is blocked while a free waits. Method: a stopped stream of a second context
// holds the first context.
#include "driver/native_codes.hpp"
#include "support/test_mapping.hpp"
#include "unit/sim/sim_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <future>

namespace vma {
namespace {

/// A stream of another context that is stopped until `open`, and its event.
struct Outside {
  explicit Outside(SimRig& owner) : rig(owner) {
    context = rig.driver().create_context(DeviceId{0});
    stream = rig.driver().create_stream(context, StreamKind::non_blocking);
    let_go = rig.driver().create_event(context);
    gate = rig.new_word();
    rig.batch_wait(stream, gate, 1);
    rig.driver().record(let_go, stream);
  }
  void open() { store(gate, 1); }

  SimRig& rig;
  ContextHandle context{};
  BoundStream stream;
  EventHandle let_go{};
  std::uint64_t* gate = nullptr;
};

TEST(SimContext, AHoldCoversStreamsNamedAndUnnamedNowAndLater) {
  SimRig rig;
  Outside outside(rig);
  const EventHandle at_rest = rig.new_event(0);
  const BoundStream early = rig.new_stream(0);
  rig.launch(early, [](DeviceView&) {});
  rig.driver().record_context(rig.context(0), at_rest);
  rig.driver().hold_context(rig.context(0), outside.let_go);
  EXPECT_TRUE(rig.driver().wait_event(at_rest, never));
  rig.launch(early, [](DeviceView&) {});
  const BoundStream late = rig.new_stream(0);
  rig.launch(late, [](DeviceView&) {});
  const BoundStream legacy{rig.context(0), {}};
  rig.launch(legacy, [](DeviceView&) {});
  EXPECT_FALSE(rig.driver().query_stream(early));
  EXPECT_FALSE(rig.driver().query_stream(late));
  EXPECT_FALSE(rig.driver().query_stream(legacy));
  rig.launch(rig.stream(1), [](DeviceView&) {});
  rig.finish(rig.stream(1));
  outside.open();
  rig.finish(early);
  rig.finish(late);
  rig.finish(legacy);
}

TEST(SimContext, ARecordAfterAHoldCompletesOnlyWithIt) {
  SimRig rig;
  Outside outside(rig);
  const EventHandle event = rig.new_event(0);
  rig.driver().hold_context(rig.context(0), outside.let_go);
  rig.driver().record_context(rig.context(0), event);
  EXPECT_FALSE(rig.driver().query_event(event));
  outside.open();
  EXPECT_TRUE(rig.driver().wait_event(event, never));
}

TEST(SimContext, ARecordWaitsForWorkThatStands) {
  SimRig rig;
  std::uint64_t* gate = rig.new_word();
  rig.batch_wait(rig.stream(0), gate, 1);
  const EventHandle event = rig.new_event(0);
  rig.driver().record_context(rig.context(0), event);
  EXPECT_FALSE(
      rig.driver().wait_event(event, rig.driver().clock().now() + std::chrono::milliseconds(2)));
  store(gate, 1);
  EXPECT_TRUE(rig.driver().wait_event(event, never));
}

TEST(SimContext, AnEventOfAnotherContextCannotBeRecorded) {
  SimRig rig;
  const EventHandle event = rig.new_event(1);
  EXPECT_EQ(native_of([&] { rig.driver().record_context(rig.context(0), event); }),
            native_invalid_handle);
  EXPECT_EQ(native_of([&] { rig.driver().record(event, rig.stream(0)); }), native_invalid_handle);
}

TEST(SimContext, AFreeBehindAStoppedStreamKeepsLaunchesOut) {
  SimRig rig;
  std::uint64_t* gate = rig.new_word();
  rig.batch_wait(rig.stream(0), gate, 1);
  const Address plain = rig.driver().allocate_plain(rig.context(0), 100);
  const BoundStream other = rig.new_stream(0);
  auto freed =
      std::async(std::launch::async, [&] { rig.driver().free_plain(rig.context(0), plain); });
  EXPECT_EQ(freed.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  auto launched = std::async(std::launch::async, [&] { rig.launch(other, [](DeviceView&) {}); });
  EXPECT_EQ(launched.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  const auto memory = rig.allocate(gpu(0), rig.page());  // Map, grant and unmap are not blocked,
  rig.give_back(memory);
  rig.launch(rig.stream(1), [](DeviceView&) {});  // nor are other contexts.
  rig.finish(rig.stream(1));
  store(gate, 1);
  freed.get();
  launched.get();
}

TEST(SimContext, PrimaryContextsAreCounted) {
  SimRig rig;
  EXPECT_EQ(rig.driver().retain_primary(DeviceId{0}), rig.context(0));
  rig.driver().release_primary(DeviceId{0});
  EXPECT_TRUE(rig.driver().context_active(DeviceId{0}));
  rig.driver().release_primary(DeviceId{0});
  EXPECT_FALSE(rig.driver().context_active(DeviceId{0}));
  EXPECT_EQ(rig.driver().free_bytes(DeviceId{0}), 0u);
  EXPECT_EQ(native_of([&] { rig.finish(rig.stream(0)); }), native_invalid_handle);
  EXPECT_EQ(native_of([&] { rig.driver().release_primary(DeviceId{0}); }), native_invalid_context);
}

TEST(SimContext, TheCurrentContextIsTheThreads) {
  SimRig rig;
  EXPECT_TRUE(is_none(rig.driver().current_context()));
  rig.driver().set_current_context(rig.context(1));
  auto other = std::async(std::launch::async, [&] { return rig.driver().current_context(); });
  EXPECT_TRUE(is_none(other.get()));
  EXPECT_EQ(rig.driver().current_context(), rig.context(1));
  rig.driver().set_current_context({});
}

TEST(SimContext, ADestroyedContextDropsWorkThatStands) {
  SimRig rig;
  Outside outside(rig);
  rig.driver().destroy_context(outside.context);
  EXPECT_EQ(native_of([&] { rig.driver().query_event(outside.let_go); }), native_invalid_handle);
}

}  // namespace
}  // namespace vma
