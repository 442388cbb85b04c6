// Goal: what the choice of contexts for copies relies on ("Which context copies run in" in
// runtime/migrate/copying/README.md). Each test decides between two designs: run these first on a
// new driver (`ctest -R ContextChoice`). Method: holds as the runtime makes them, behind work of
// the application that ends only when the test lets it; calls that may block are made on threads.

#include "contract/beside.hpp"
#include "contract/contract_test.hpp"

#include <vma/error.hpp>

#include <algorithm>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vma {
namespace {

template <typename Machine>
class ContextChoice : public ContractTest<Machine> {
 protected:
  void SetUp() override {
    ContractTest<Machine>::SetUp();
    if (this->IsSkipped() || this->needs_child()) return;
    ContractRig& rig = this->rig();
    for (int device = 0; device < rig.gpus(); ++device) {
      rig.kernel(rig.context(device), spin_kernel());
    }
    const std::vector<Accessor> all = all_gpus(this->driver());
    source_ = std::make_unique<TestMapping>(this->driver(), gpu(0), 4 * rig.page(), all);
    target_ =
        std::make_unique<TestMapping>(this->driver(), gpu(rig.gpus() - 1), 4 * rig.page(), all);
    rig.fill(0, *source_, 5);
    rig.fill(0, *target_, 500);
  }
  void TearDown() override {
    source_.reset();
    target_.reset();
    ContractTest<Machine>::TearDown();
  }

  bool has_holds() { return this->driver().has_context_hold(); }

  /// None if the driver has no green contexts.
  ContextHandle green() {
    try {
      green_ = this->rig().new_green_context(0);
    } catch (const Error& error) {
      this->report("a green context", error.what());
    }
    return green_;
  }

  void launch_short(BoundStream stream) {
    this->rig().launch(stream, spin_kernel(), std::uint64_t{1000});
  }
  bool runs_within(BoundStream stream, std::chrono::milliseconds limit) {
    return this->driver().wait_stream(stream, this->driver().clock().now() + limit);
  }
  /// Whether the stream has not got through its work after a long time.
  bool stands(BoundStream stream) { return !runs_within(stream, std::chrono::milliseconds(50)); }

  std::vector<EventHandle> record_all() {
    ContractRig& rig = this->rig();
    std::vector<EventHandle> at_rest;
    for (int device = 0; device < rig.gpus(); ++device) {
      at_rest.push_back(rest_[static_cast<std::size_t>(device)]);
      this->driver().record_context(rig.context(device), at_rest.back());
    }
    return at_rest;
  }
  void make_rest_events() {
    ContractRig& rig = this->rig();
    for (int device = 0; device < rig.gpus(); ++device) {
      rest_.push_back(rig.new_event(rig.context(device)));
    }
  }
  /// Copies the source to the target, after the events.
  void copy_after(BoundStream stream, const std::vector<EventHandle>& events, EventHandle done) {
    Driver& driver = this->driver();
    for (const EventHandle event : events) driver.stream_wait_event(stream, event);
    driver.copy(stream, target_->address(), source_->address(), source_->size_bytes());
    driver.record(done, stream);
  }
  void expect_copied() { EXPECT_EQ(this->rig().mismatches(0, *target_, 5), 0u); }

  std::unique_ptr<TestMapping> source_, target_;
  ContextHandle green_{};
  std::vector<EventHandle> rest_;
};
TYPED_TEST_SUITE(ContextChoice, ContractMachines, MachineNames);

// Decides whether copies that are enqueued before a hold need a context of their own.
TYPED_TEST(ContextChoice, ACopyEnqueuedBeforeAHoldRunsUnderIt) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  if (!this->has_holds()) GTEST_SKIP() << "SKIPPED: the driver has no context hold";
  const BoundStream outside = rig.new_stream(rig.new_context(0));
  const BoundStream busy = rig.new_stream(rig.context(0)), copies = rig.new_stream(rig.context(0));
  const BoundStream late = rig.new_stream(rig.context(0));
  const EventHandle let_go = rig.new_event(outside.context);
  const EventHandle done = rig.new_event(rig.context(0));
  this->make_rest_events();
  StoppedStream held(rig, outside), application(rig, busy);
  driver.record(let_go, outside);
  ASSERT_TRUE(application.stands());
  this->copy_after(copies, this->record_all(), done);
  for (int device = 0; device < rig.gpus(); ++device) {
    driver.hold_context(rig.context(device), let_go);
  }
  this->launch_short(late);
  EXPECT_FALSE(driver.query_event(done)) << "it waits for earlier work";
  application.open();
  EXPECT_TRUE(rig.wait(done)) << "and then runs";
  EXPECT_TRUE(this->stands(late)) << "while later work is held";
  held.open();
  EXPECT_TRUE(rig.wait(late));
  this->expect_copied();
}

// Decides whether the stream on whose event a hold waits needs a context of its own.
TYPED_TEST(ContextChoice, AStoppedStreamOfTheHeldContextHoldsItIfItStoppedAfterTheRecord) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  if (!this->has_holds()) GTEST_SKIP() << "SKIPPED: the driver has no context hold";
  const BoundStream post = rig.new_stream(rig.context(0)), early = rig.new_stream(rig.context(0));
  const BoundStream late = rig.new_stream(rig.context(0));
  const EventHandle let_go = rig.new_event(rig.context(0));
  this->make_rest_events();
  rig.launch(early, spin_kernel(), std::uint64_t{3'000'000});
  const std::vector<EventHandle> at_rest = this->record_all();
  StoppedStream held(rig, post);
  driver.record(let_go, post);
  for (int device = 0; device < rig.gpus(); ++device) {
    driver.hold_context(rig.context(device), let_go);
  }
  for (const EventHandle event : at_rest) EXPECT_TRUE(rig.wait(event)) << "it is not part of them";
  this->launch_short(late);
  EXPECT_TRUE(this->stands(late));
  if (rig.gpus() > 1) {
    const BoundStream there = rig.new_stream(rig.context(1));
    this->launch_short(there);
    EXPECT_TRUE(this->stands(there)) << "another GPU is held by the same event";
  }
  held.open();
  EXPECT_TRUE(rig.wait(late));
}

// A hold as the runtime makes it without a context of its own, again and again.
TYPED_TEST(ContextChoice, AHoldWithItsCopiesAheadNeedsNoContextOfItsOwn) {
  VMART_IN_CHILD(120);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  if (!this->has_holds()) GTEST_SKIP() << "SKIPPED: the driver has no context hold";
  const int queues = driver.device_info(DeviceId{0}).max_queues;
  if (queues < 2) GTEST_SKIP() << "SKIPPED: needs two hardware queues";
  const BoundStream post = rig.new_stream(rig.context(0)), copies = rig.new_stream(rig.context(0));
  const EventHandle let_go = rig.new_event(rig.context(0)), done = rig.new_event(rig.context(0));
  this->make_rest_events();
  std::vector<BoundStream> application;
  for (int i = 0; i < 4 * queues; ++i) application.push_back(rig.new_stream(rig.context(0)));
  for (std::uint64_t round = 0; round < 5; ++round) {
    SCOPED_TRACE(round);
    rig.fill(0, *this->source_, 5 + round);
    for (const BoundStream stream : application) {
      rig.launch(stream, spin_kernel(), std::uint64_t{200'000});
    }
    const std::vector<EventHandle> at_rest = this->record_all();
    this->copy_after(copies, at_rest, done);
    StoppedStream held(rig, post);
    driver.record(let_go, post);
    for (int device = 0; device < rig.gpus(); ++device) {
      driver.hold_context(rig.context(device), let_go);
    }
    for (const BoundStream stream : application) this->launch_short(stream);
    for (const EventHandle event : at_rest) EXPECT_TRUE(rig.wait(event));
    EXPECT_TRUE(rig.wait(done));
    this->target_->unmap();
    this->target_->map();
    this->target_->grant(all_gpus(driver));
    EXPECT_FALSE(driver.query_stream(application.back())) << "what came later is still held";
    held.open();
    for (const BoundStream stream : application) EXPECT_TRUE(rig.wait(stream));
    EXPECT_EQ(rig.mismatches(0, *this->target_, 5 + round), 0u);
  }
}

// A thread that frees memory in the moment between the two waits for the post, with a lock. If the
// hold then stands too, the watchdog opens it, and the next try follows.
TYPED_TEST(ContextChoice, AHoldBesideAFreeThatWaitsForItsPost) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  if (!this->has_holds()) GTEST_SKIP() << "SKIPPED: the driver has no context hold";
  const BoundStream post = rig.new_stream(rig.context(0));
  const EventHandle let_go = rig.new_event(rig.context(0));
  const Address freed = driver.allocate_plain(rig.context(0), 32 * rig.page());
  std::optional<Beside> free_call, hold_call;
  StoppedStream held(rig, post);
  ASSERT_TRUE(held.stands());
  driver.record(let_go, post);
  free_call.emplace([&] { driver.free_plain(rig.context(0), freed); });
  EXPECT_TRUE(free_call->stands());
  hold_call.emplace([&] { driver.hold_context(rig.context(0), let_go); });
  const bool stands = hold_call->stands();
  this->report("a hold beside a free that waits for its post", stands ? "stands" : "returns");
  EXPECT_FALSE(stands && driver.simulated());
  held.open();
  free_call->join();
  hold_call->join();
}

// Decides whether reads, writes and fills may run in a context whose streams the program captures.
TYPED_TEST(ContextChoice, CopiesAndFillsInAContextEndNoCaptureThere) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  std::vector<std::byte> pageable(this->source_->size_bytes());
  const auto copies = [&] {
    const BoundStream stream = driver.create_stream(rig.context(0), StreamKind::non_blocking);
    driver.copy(stream, address_of(pageable.data()), this->source_->address(), pageable.size());
    driver.copy(stream, this->target_->address(), address_of(pageable.data()), pageable.size());
    driver.fill(stream, this->target_->address(), std::byte{1}, this->target_->size_bytes());
    driver.copy(stream, this->target_->address(), this->source_->address(),
                this->source_->size_bytes());
    const EventHandle done = driver.create_event(rig.context(0));
    driver.record(done, stream);
    EXPECT_TRUE(rig.wait(done));
    EXPECT_TRUE(rig.wait(stream));
    EXPECT_TRUE(driver.query_stream(stream));
    driver.destroy_event(done);
    driver.destroy_stream(stream);
  };
  for (const CaptureMode mode :
       {CaptureMode::global, CaptureMode::thread_local_mode, CaptureMode::relaxed}) {
    for (const StreamKind kind : {StreamKind::blocking, StreamKind::non_blocking}) {
      const BoundStream captured = rig.new_stream(rig.context(0), kind);
      driver.begin_capture(captured, mode);
      this->launch_short(captured);
      EXPECT_EQ(native_of(copies), 0) << "on the capturing thread";
      Beside other([&] { EXPECT_EQ(native_of(copies), 0) << "on another thread"; });
      other.join();
      GraphHandle graph{};
      EXPECT_EQ(native_of([&] { graph = driver.end_capture(captured); }), 0) << "the capture lives";
      if (!is_none(graph)) driver.destroy_graph(graph);
    }
  }
  this->expect_copied();
}

// How long the window grows in which another thread's work is neither waited for nor held.
TYPED_TEST(ContextChoice, TimeFromTheRecordToTheHoldWithCopiesBetween) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  if (!this->has_holds()) GTEST_SKIP() << "SKIPPED: the driver has no context hold";
  const BoundStream outside = rig.new_stream(rig.new_context(0));
  const BoundStream copies = rig.new_stream(rig.context(0));
  const EventHandle let_go = rig.new_event(outside.context);
  const EventHandle done = rig.new_event(rig.context(0));
  this->make_rest_events();
  driver.record(let_go, outside);
  for (const int count : {0, 1, 8, 64}) {
    TimePoint shortest = never;
    for (int round = 0; round < 5; ++round) {
      driver.record_context(rig.context(0), this->rest_[0]);
      const TimePoint start = driver.clock().now();
      for (int i = 0; i < count; ++i) this->copy_after(copies, {this->rest_[0]}, done);
      driver.hold_context(rig.context(0), let_go);
      shortest = std::min(shortest, driver.clock().now() - start);
      EXPECT_TRUE(rig.wait(copies));
    }
    this->report(std::to_string(count) + " copies between the record and the hold of a context",
                 std::to_string(shortest.count() / 1000) + " us");
  }
}

// With these two, a green context cannot copy under a hold unless the copies are enqueued before.
TYPED_TEST(ContextChoice, AHoldOfAPrimaryContextHoldsItsGreenContexts) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  if (!this->has_holds()) GTEST_SKIP() << "SKIPPED: the driver has no context hold";
  if (is_none(this->green())) GTEST_SKIP() << "SKIPPED: the driver has no green contexts";
  const BoundStream outside = rig.new_stream(rig.new_context(0));
  const BoundStream green = rig.new_stream(this->green_);
  const EventHandle let_go = rig.new_event(outside.context);
  StoppedStream held(rig, outside);
  driver.record(let_go, outside);
  driver.hold_context(rig.context(0), let_go);
  driver.copy(green, this->target_->address(), this->source_->address(),
              this->source_->size_bytes());
  EXPECT_TRUE(this->stands(green));
  held.open();
  EXPECT_TRUE(rig.wait(green));
  this->expect_copied();
}

TYPED_TEST(ContextChoice, ARecordOfAPrimaryContextCoversItsGreenContexts) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  if (!this->has_holds()) GTEST_SKIP() << "SKIPPED: the driver has no context hold";
  if (is_none(this->green())) GTEST_SKIP() << "SKIPPED: the driver has no green contexts";
  const BoundStream green = rig.new_stream(this->green_);
  this->make_rest_events();
  StoppedStream stopped(rig, green);
  ASSERT_TRUE(stopped.stands());
  driver.record_context(rig.context(0), this->rest_[0]);
  EXPECT_FALSE(driver.query_event(this->rest_[0]));
  stopped.open();
  EXPECT_TRUE(rig.wait(this->rest_[0]));
}

// Decides where copies under a closed gate may run: `green_contexts_are_apart` is the answer for
// green contexts. A thread that frees memory waits for the stopped stream, with a lock.
TYPED_TEST(ContextChoice, ACopyBesideAFreeBehindAStoppedStream) {
  VMART_IN_CHILD(120);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  struct Place {
    std::string name;
    ContextHandle context{};
    bool returns = false;
    bool decided = true;
  };
  std::vector<Place> places{{"a context of its own", rig.new_context(0), true},
                            {"the same context", rig.context(0), false, false}};
  if (!is_none(this->green())) {
    places.push_back({"a green context", this->green_, driver.green_contexts_are_apart(),
                      driver.simulated() || driver.green_contexts_are_apart()});
  }
  for (const Place& place : places) {
    SCOPED_TRACE(place.name);
    const BoundStream busy = rig.new_stream(rig.context(0)), copies = rig.new_stream(place.context);
    const EventHandle done = rig.new_event(place.context);
    rig.kernel(place.context, spin_kernel());
    const Address freed = driver.allocate_plain(rig.context(0), 32 * rig.page());
    std::optional<Beside> free_call, copy_call, launch_call;
    StoppedStream stopped(rig, busy);
    ASSERT_TRUE(stopped.stands());
    free_call.emplace([&] { driver.free_plain(rig.context(0), freed); });
    EXPECT_TRUE(free_call->stands());
    copy_call.emplace([&] { this->copy_after(copies, {}, done); });
    const bool returned = !copy_call->stands();
    launch_call.emplace([&] { this->launch_short(copies); });
    const bool launched = !launch_call->stands();
    const bool ran =
        returned && driver.wait_event(done, driver.clock().now() + std::chrono::milliseconds(200));
    this->report("a copy in " + place.name + " beside a free behind a stopped stream",
                 !returned ? "the call stands"
                 : ran     ? "returns and runs"
                           : "returns and waits");
    this->report("a launch there", launched ? "returns" : "stands");
    if (place.decided) {
      EXPECT_EQ(returned && ran, place.returns);
      EXPECT_EQ(launched, place.returns);
    } else if (driver.simulated()) {
      EXPECT_FALSE(returned);
    }
    stopped.open();
    free_call->join();
    copy_call->join();
    launch_call->join();
    EXPECT_TRUE(rig.wait(copies));
  }
}

// Whether a green context has hardware queues of its own.
TYPED_TEST(ContextChoice, AGreenContextBesideStreamsThatHoldAllQueues) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  if (is_none(this->green())) GTEST_SKIP() << "SKIPPED: the driver has no green contexts";
  const BoundStream green = rig.new_stream(this->green_);
  const EventHandle done = rig.new_event(this->green_);
  rig.kernel(this->green_, spin_kernel());
  const int queues = driver.device_info(DeviceId{0}).max_queues;
  std::list<StoppedStream> stopped;
  for (int i = 0; i < queues; ++i) stopped.emplace_back(rig, rig.new_stream(rig.context(0)));
  for (StoppedStream& stream : stopped) EXPECT_TRUE(stream.stands());
  this->copy_after(green, {}, done);
  const bool copied =
      driver.wait_event(done, driver.clock().now() + std::chrono::milliseconds(100));
  this->launch_short(green);
  const bool ran = this->runs_within(green, std::chrono::milliseconds(100));
  this->report("a copy in a green context while stopped streams hold all queues",
               copied ? "runs" : "waits");
  this->report("a kernel there", ran ? "runs" : "waits");
  for (StoppedStream& stream : stopped) stream.open();
  EXPECT_TRUE(rig.wait(green));
}

TYPED_TEST(ContextChoice, AGreenContextKeepsThePrimaryContextActive) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  if (is_none(this->green())) GTEST_SKIP() << "SKIPPED: the driver has no green contexts";
  EXPECT_NE(this->green_, rig.context(0));
  EXPECT_EQ(driver.context_device(this->green_), DeviceId{0});
  const BoundStream green = rig.new_stream(this->green_);
  const EventHandle done = rig.new_event(this->green_);
  this->copy_after(green, {}, done);
  EXPECT_TRUE(rig.wait(done));
  this->expect_copied();
}

}  // namespace
}  // namespace vma
