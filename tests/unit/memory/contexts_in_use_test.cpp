// Goal: the list has exactly the contexts that may touch memory, and draining them waits for their
// work; neither opens a context, keeps one alive by accident or loses an event.
#include "unit/memory/memory_rig.hpp"

#include "base/executor.hpp"
#include "support/drivers/intercept_driver.hpp"
#include "driver/native_codes.hpp"
#include "machine/machine_file.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

namespace vma {
namespace {

using Contexts = std::vector<ContextHandle>;

TEST(ContextsInUse, ListsActivePrimaryContextsAndOpensNone) {
  SimDriver machine(load_machine("test-4"));
  const Topology topology = Topology::discover(machine, {});
  Ledger ledger;
  {
    ContextsInUse contexts(machine, topology, ledger);
    EXPECT_EQ(contexts.list(), Contexts());
    const ContextHandle second = machine.retain_primary(DeviceId{2});
    EXPECT_EQ(contexts.list(), Contexts{second});
    EXPECT_FALSE(machine.context_active(DeviceId{0}));
    // The list keeps the context alive, so the handle stays valid.
    machine.release_primary(DeviceId{2});
    EXPECT_TRUE(machine.context_active(DeviceId{2}));
    EXPECT_EQ(contexts.list(), Contexts{second});
  }
  EXPECT_FALSE(machine.context_active(DeviceId{2}));
  EXPECT_EQ(machine.leaks(), std::vector<std::string>());
}

TEST(ContextsInUse, RetainsAContextOnceHoweverManyList) {
  SimDriver machine(load_machine("test-4"));
  const Topology topology = Topology::discover(machine, {});
  Ledger ledger;
  for (int i = 0; i < 4; ++i) machine.retain_primary(DeviceId{i});
  {
    ContextsInUse contexts(machine, topology, ledger);
    ThreadedExecutor executor;
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < 4; ++i) {
      tasks.push_back(executor.spawn("lister", [&] { EXPECT_EQ(contexts.list().size(), 4u); }));
    }
    for (const auto& task : tasks) task->join();
  }
  for (int i = 0; i < 4; ++i) machine.release_primary(DeviceId{i});
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(machine.context_active(DeviceId{i})) << "one too many was retained";
  }
  EXPECT_EQ(ledger.leaks(), 0u);
}

/// Lists the contexts, as another thread would, while the first one is being retained.
class ListingDriver : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;
  ContextHandle retain_primary(DeviceId device) override {
    if (ContextsInUse* asked = std::exchange(contexts, nullptr)) asked->list();
    return InterceptDriver::retain_primary(device);
  }
  ContextsInUse* contexts = nullptr;

 private:
  void around(Call, const std::function<void()>& body) override { body(); }
};

TEST(ContextsInUse, ReleasesWhatAnotherHasRetainedMeanwhile) {
  SimDriver machine(load_machine("test-2"));
  const Topology topology = Topology::discover(machine, {});
  Ledger ledger;
  machine.retain_primary(DeviceId{0});
  {
    ListingDriver driver(machine);
    ContextsInUse contexts(driver, topology, ledger);
    driver.contexts = &contexts;
    EXPECT_EQ(contexts.list().size(), 1u);
  }
  machine.release_primary(DeviceId{0});
  EXPECT_FALSE(machine.context_active(DeviceId{0})) << "one too many was retained";
}

TEST(ContextsInUse, AsksTheDriverWithoutItsLock) {
  MemoryRig rig;
  ContextsInUse contexts(rig.driver(), rig.topology(), rig.memory().chunks().ledger());
  ThreadedExecutor executor;
  std::unique_ptr<Task> lister;
  rig.delay(Call::retain_primary, std::chrono::milliseconds(200));
  const TimePoint start = rig.machine().clock().now();
  lister = executor.spawn("lister", [&] { contexts.list(); });
  EXPECT_TRUE(comes_true([&] { return rig.calls(Call::context_active) > 0; }));
  contexts.give_back(rig.context(0), contexts.take_event(rig.context(0)));
  EXPECT_LT(rig.machine().clock().now() - start, std::chrono::milliseconds(200));
  lister->join();
}

TEST(ContextsInUse, ListsOnlyTheDevicesOfTheRuntime) {
  SimDriver machine(load_machine("test-4"));
  const int devices[] = {1, 3};
  const Topology topology = Topology::discover(machine, devices);
  Ledger ledger;
  ContextsInUse contexts(machine, topology, ledger);
  for (int i = 0; i < 4; ++i) machine.retain_primary(DeviceId{i});
  const Contexts listed = contexts.list();
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(machine.context_device(listed[0]), DeviceId{1});
  EXPECT_EQ(machine.context_device(listed[1]), DeviceId{3});
}

TEST(ContextsInUse, ListsTheCallersContextButNotTheRuntimesOwn) {
  MemoryRig rig;
  ContextsInUse& contexts = rig.memory().contexts();
  const Contexts primaries{rig.context(0), rig.context(1)};
  EXPECT_EQ(contexts.list(), primaries);
  rig.machine().set_current_context(rig.context(1));
  EXPECT_EQ(contexts.list(), primaries) << "each once";
  const ContextHandle other = rig.machine().create_context(DeviceId{0});
  rig.machine().set_current_context(other);
  EXPECT_EQ(contexts.list(), (Contexts{rig.context(0), rig.context(1), other}));
  contexts.exclude(other);
  EXPECT_EQ(contexts.list(), primaries);
  contexts.forget(other);
  EXPECT_EQ(contexts.list().size(), 3u);
  rig.machine().set_current_context({});
  rig.machine().destroy_context(other);
}

TEST(ContextsInUse, UsesEventsAgain) {
  MemoryRig rig;
  ContextsInUse& contexts = rig.memory().contexts();
  contexts.list();  // From here the primary contexts are known to stay.
  const EventHandle first = contexts.take_event(rig.context(0));
  const EventHandle second = contexts.take_event(rig.context(0));
  EXPECT_NE(first, second);
  contexts.give_back(rig.context(0), first);
  EXPECT_NE(contexts.take_event(rig.context(1)), first) << "an event is of one context";
  rig.forget_calls();
  EXPECT_EQ(contexts.take_event(rig.context(0)), first);
  EXPECT_EQ(rig.calls(Call::create_event), 0);
  contexts.give_back(rig.context(0), first);
  contexts.give_back(rig.context(0), second);
  rig.close();
  // The event of the other context was not given back; it is all that remains of ours.
  int events = 0;
  for (const std::string& left : rig.machine().leaks()) events += left.starts_with("event");
  EXPECT_EQ(events, 1);
  for (const TracedCall& call : rig.trace()) EXPECT_FALSE(call.threw);
}

TEST(ContextsInUse, KeepsNoEventOfAContextThatMayGo) {
  MemoryRig rig;
  ContextsInUse& contexts = rig.memory().contexts();
  const ContextHandle other = rig.machine().create_context(DeviceId{0});
  rig.forget_calls();
  contexts.give_back(other, contexts.take_event(other));
  EXPECT_EQ(rig.calls(Call::destroy_event), 1);
  rig.machine().destroy_context(other);
}

TEST(ContextsInUse, DrainWaitsForTheWorkOfEveryContext) {
  MemoryRig rig;
  constexpr std::chrono::milliseconds long_time(300);
  const BoundStream stream = rig.new_stream(1);
  rig.launch_spin(stream, long_time);
  const TimePoint start = rig.machine().clock().now();
  rig.memory().contexts().await_work();
  EXPECT_GE(rig.machine().clock().now() - start, long_time);
  EXPECT_TRUE(rig.machine().query_stream(stream));
}

TEST(ContextsInUse, DrainEndsNoCaptureAndWaitsForTheRest) {
  MemoryRig rig;
  constexpr std::chrono::milliseconds long_time(100);
  const BoundStream captured = rig.new_stream(1), works = rig.new_stream(1);
  rig.launch_spin(works, TimePoint(1));
  rig.machine().wait_stream(works, never);
  rig.machine().begin_capture(captured, CaptureMode::relaxed);
  rig.launch_spin(works, long_time);
  const TimePoint start = rig.machine().clock().now();
  rig.memory().contexts().await_work();
  EXPECT_GE(rig.machine().clock().now() - start, long_time);
  rig.machine().destroy_graph(rig.machine().end_capture(captured));
}

/// A driver that cannot wait for a context because it is out of memory.
class NoMemoryToWaitDriver : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;
  void synchronize_context(ContextHandle) override {
    throw driver_error(native_out_of_memory, "cuCtxSynchronize");
  }

 private:
  void around(Call, const std::function<void()>& body) override { body(); }
};

TEST(ContextsInUse, DrainWaitsForAMarkWhereThereIsNoMemoryToWaitForAContext) {
  MemoryRig rig;
  constexpr std::chrono::milliseconds long_time(300);
  const BoundStream stream = rig.new_stream(1);
  rig.launch_spin(stream, long_time);
  NoMemoryToWaitDriver driver(static_cast<Driver&>(rig.driver()));
  ContextsInUse contexts(driver, rig.topology(), rig.memory().chunks().ledger());
  const TimePoint start = rig.machine().clock().now();
  contexts.await_work();
  EXPECT_GE(rig.machine().clock().now() - start, long_time);
  EXPECT_TRUE(rig.machine().query_stream(stream));
}

TEST(ContextsInUse, DrainFailsWhereAContextCannotBeWaitedFor) {
  MemoryRig rig;
  ContextsInUse& contexts = rig.memory().contexts();
  for (const int number : {0, 1}) {
    rig.fail({Call::synchronize_context}, {number});
    expect_error(ErrorKind::driver_failure, [&] { contexts.await_work(); });
  }
  rig.fail_nothing();
  contexts.await_work();
}

TEST(ContextsInUse, ABrokenContextCountsAsDrained) {
  MemoryRig rig;
  rig.memory().contexts().list();  // From here the primary contexts are retained.
  rig.break_context(rig.new_stream(0));
  EXPECT_NO_THROW(rig.memory().contexts().await_work());
}

TEST(ContextsInUse, KnowsTheCodesOfABrokenContext) {
  EXPECT_TRUE(context_is_broken(native_illegal_address));
  EXPECT_TRUE(context_is_broken(native_launch_failed));
  EXPECT_TRUE(context_is_broken(native_context_is_destroyed));
  EXPECT_TRUE(context_is_broken(native_deinitialized));
  for (const int code : {native_success, native_not_ready, native_out_of_memory, native_unknown,
                         native_stream_capture_unsupported, native_invalid_handle}) {
    EXPECT_FALSE(context_is_broken(code)) << code;
  }
}

}  // namespace
}  // namespace vma
