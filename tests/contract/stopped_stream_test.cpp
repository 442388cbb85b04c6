// Goal: what waits for what behind a stopped stream, and above all which calls still return.
// Method: a stream waits for a word in pinned memory. Calls on this thread must return; a call on
// another thread counts as blocked if it has not returned after 200 ms. In the end the word is
// always stored, so that nothing stays behind; the parent kills a process that blocks nevertheless.

#include "contract/beside.hpp"
#include "contract/contract_test.hpp"

#include <algorithm>
#include <functional>
#include <list>
#include <string>
#include <utility>

namespace vma {
namespace {

template <typename Machine>
class StoppedStreams : public ContractTest<Machine> {
 protected:
  void SetUp() override {
    ContractTest<Machine>::SetUp();
    if (this->IsSkipped() || this->needs_child()) return;
    ContractRig& rig = this->rig();
    for (int device = 0; device < rig.gpus(); ++device) {
      rig.kernel(rig.context(device), spin_kernel());
    }
    other_context_ = rig.new_stream(rig.new_context(0));
    rig.kernel(other_context_.context, spin_kernel());
    memory_ =
        std::make_unique<TestMapping>(this->driver(), gpu(0), rig.page(), all_gpus(this->driver()));
    spare_ =
        std::make_unique<TestMapping>(this->driver(), gpu(0), rig.page(), all_gpus(this->driver()));
    plain_ = this->driver().allocate_plain(rig.context(0), 32 * rig.page());
    for (const BoundStream stream : {rig.stream(0), other_context_}) {
      ASSERT_EQ(this->run_spin(stream), 0) << "warm up";
    }
  }

  void TearDown() override {
    if (to_integer(plain_) != 0) {
      EXPECT_EQ(native_of([&] { this->driver().free_plain(this->rig().context(0), plain_); }), 0);
    }
    memory_.reset();
    spare_.reset();
    ContractTest<Machine>::TearDown();
  }

  int run_spin(BoundStream stream) {
    ContractRig& rig = this->rig();
    return rig.finish(stream, [&] { rig.launch(stream, spin_kernel(), std::uint64_t{1000}); });
  }

  /// The calls of a switch, which must return whatever another thread is doing.
  void expect_switch_works() {
    memory_->unmap();
    memory_->map();
    memory_->grant(all_gpus(this->driver()));
  }

  void expect_batch_works(BoundStream stream) {
    std::uint64_t* word = this->rig().new_word();
    const WordOperation write{WordOperation::Kind::write, address_of(word), 3};
    this->driver().batch(stream, {&write, 1});
    // Waits for the word, not the stream: a query is another call that might block.
    EXPECT_TRUE(ContractRig::becomes(*word, 3));
  }

  void expect_everything_works() {
    ContractRig& rig = this->rig();
    expect_switch_works();
    expect_batch_works(rig.stream(0));
    EXPECT_EQ(run_spin(other_context_), 0) << "a second context";
    EXPECT_EQ(run_spin(rig.stream(0)), 0) << "the same context";
    EXPECT_EQ(rig.run_copy(0, spare_->address(), memory_->address(), rig.page()), 0);
    this->driver().destroy_event(this->driver().create_event(rig.context(0)));
  }

  BoundStream other_context_;
  std::unique_ptr<TestMapping> memory_;
  std::unique_ptr<TestMapping> spare_;
  Address plain_{};
};
TYPED_TEST_SUITE(StoppedStreams, ContractMachines, MachineNames);

TYPED_TEST(StoppedStreams, TheMemoryCallsAndCopiesOnOtherStreamsDoNotWait) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  for (const bool by_kernel : {false, true}) {
    const BoundStream busy = rig.new_stream(rig.context(0));
    std::optional<StoppedStream> stopped;
    if (by_kernel) {
      rig.launch(busy, spin_kernel(), std::uint64_t{1'000'000'000});
    } else {
      stopped.emplace(rig, busy);
      ASSERT_TRUE(stopped->stands());
    }
    {
      const TestMapping fresh(driver, gpu(0), rig.page(), all_gpus(driver));
      EXPECT_EQ(rig.run_copy(0, fresh.address(), this->memory_->address(), rig.page()), 0);
    }
    this->expect_switch_works();
    if (!by_kernel || !driver.simulated()) {
      EXPECT_FALSE(driver.query_stream(busy)) << "all that was done beside it";
    }
    if (stopped) stopped->open();
    EXPECT_TRUE(rig.wait(busy));
  }
}

/// cuMemcpyAsync of unmapped memory is not tried: it takes the address for one of the CPU's.
TYPED_TEST(StoppedStreams, CopiesAndFillsOfADarkSlotAreRefusedAndKernelsFindItLater) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  TestMapping& dark = *this->memory_;
  const BoundStream busy = rig.stream(0);
  const auto fill = [&] {
    return native_of([&] { driver.fill(busy, dark.address(), std::byte{7}, rig.page()); });
  };
  const auto copy = [&](Address target, Address source) {
    return native_of([&] { driver.copy(busy, target, source, rig.page()); });
  };
  rig.fill(0, dark, 1);
  StoppedStream stopped(rig, busy);
  ASSERT_TRUE(stopped.stands());
  dark.unmap();
  EXPECT_EQ(fill(), native_invalid_value);
  rig.launch(busy, fill_kernel(), dark.pointer(), dark.words(), std::uint64_t{5});
  dark.map();
  EXPECT_EQ(fill(), native_invalid_value) << "it is not granted";
  EXPECT_EQ(copy(dark.address(), this->spare_->address()), native_invalid_value);
  EXPECT_EQ(copy(this->spare_->address(), dark.address()), native_invalid_value);
  dark.grant(all_gpus(driver));
  EXPECT_EQ(copy(this->spare_->address(), dark.address()), 0);
  stopped.open();
  ASSERT_TRUE(rig.wait(busy));
  EXPECT_EQ(rig.mismatches(0, dark, 5), 0u);
  EXPECT_EQ(rig.mismatches(0, *this->spare_, 5), 0u);
}

TYPED_TEST(StoppedStreams, AFreeOfAnotherThreadBlocksLaunchesInItsContextAndNoSwitch) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  const BoundStream busy = rig.new_stream(rig.context(0));
  std::optional<Beside> free_call, launch_call, event_call;
  StoppedStream stopped(rig, busy);
  ASSERT_TRUE(stopped.stands());

  const Address freed = std::exchange(this->plain_, Address{});
  free_call.emplace([&] { driver.free_plain(rig.context(0), freed); });
  EXPECT_TRUE(free_call->stands()) << "a free waits for the device";
  this->expect_switch_works();
  this->expect_batch_works(rig.stream(0));
  EXPECT_EQ(this->run_spin(this->other_context_), 0) << "a second context launches";
  launch_call.emplace([&] { rig.launch(rig.stream(0), spin_kernel(), std::uint64_t{1000}); });
  EXPECT_TRUE(launch_call->stands()) << "a launch in the same context hangs";
  event_call.emplace([&] { driver.destroy_event(driver.create_event(rig.context(0))); });
  EXPECT_TRUE(event_call->stands()) << "so does making an event";
  this->expect_switch_works();
  if (rig.gpus() > 1) {
    EXPECT_EQ(this->run_spin(rig.stream(1)), 0) << "another GPU";
  }

  stopped.open();
  free_call->join();
  launch_call->join();
  event_call->join();
  EXPECT_TRUE(rig.wait(rig.stream(0)));
}

TYPED_TEST(StoppedStreams, AWaitOfAnotherThreadForAStreamBlocksNothing) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  const BoundStream busy = rig.new_stream(rig.context(0));
  std::optional<Beside> stream_call;
  StoppedStream stopped(rig, busy);
  ASSERT_TRUE(stopped.stands());
  stream_call.emplace([&] { EXPECT_TRUE(this->driver().wait_stream(busy, never)); });
  EXPECT_TRUE(stream_call->stands());
  this->expect_everything_works();
  stopped.open();
  stream_call->join();
}

// Only switches are known to return. Launches depend on what the wait consists of: during the load
// of a module they block; during the unload of a module loaded earlier they may not.
TYPED_TEST(StoppedStreams, AWaitOfAnotherThreadForTheirContextBlocksNoSwitch) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  for (const ContextHandle context : {rig.context(0), this->other_context_.context}) {
    // A context that may be destroyed at any time has nothing loaded ahead.
    const std::string which = context == rig.context(0) ? "a primary context" : "another context";
    TimePoint shortest = never;
    for (int i = 0; i < 4; ++i) {
      const TimePoint start = driver.clock().now();
      driver.synchronize_context(context);
      shortest = std::min(shortest, driver.clock().now() - start);
    }
    this->report("the shortest wait for " + which + " at rest",
                 std::to_string(shortest.count() / 1000) + " us");
    const BoundStream busy = rig.new_stream(context), other = rig.new_stream(context);
    rig.kernel(context, spin_kernel());
    bool ran = false;
    std::optional<Beside> context_call, launch_call, question;
    StoppedStream stopped(rig, busy);
    ASSERT_TRUE(stopped.stands());
    context_call.emplace([&] { driver.synchronize_context(context); });
    EXPECT_TRUE(context_call->stands());
    this->expect_switch_works();
    launch_call.emplace([&] {
      rig.launch(other, spin_kernel(), std::uint64_t{1000});
      driver.destroy_event(driver.create_event(context));
    });
    const bool launched = driver.simulated() ? launch_call->returns() : !launch_call->stands();
    EXPECT_TRUE(launched || !driver.simulated());
    this->expect_switch_works();
    if (launched) {
      const TimePoint soon = driver.clock().now() + std::chrono::milliseconds(100);
      question.emplace([&, soon] { ran = driver.wait_stream(other, soon); });
    }
    const std::string answer = !launched              ? "stands"
                               : !question->returns() ? "returns, and nothing can be asked of it"
                               : ran                  ? "returns and runs at once"
                                                      : "returns and runs after it";
    this->report("a launch beside a wait for " + which, answer);
    stopped.open();
    context_call->join();
    launch_call->join();
    if (question) question->join();
    EXPECT_TRUE(rig.wait(other));
  }
}

TYPED_TEST(StoppedStreams, ANewContextOfAnotherThreadIsMadeAndBlocksNothing) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  const BoundStream busy = rig.new_stream(rig.context(0));
  ContextHandle made{};
  std::optional<Beside> create_call, all_else;
  StoppedStream stopped(rig, busy);
  ASSERT_TRUE(stopped.stands());
  create_call.emplace([&] { made = driver.create_context(DeviceId{0}); });
  EXPECT_TRUE(create_call->returns());
  all_else.emplace([&] { this->expect_everything_works(); });
  EXPECT_TRUE(all_else->returns());
  stopped.open();
  create_call->join();
  all_else->join();
  driver.destroy_context(made);
}

/// Calls during a blocked destruction, each on its own thread. Declare it before what the calls
/// wait for.
class BesideADestruction {
 public:
  /// Requires: nothing is stopped yet. `granted` is a mapping that some device has access to.
  BesideADestruction(ContractRig& rig, const TestMapping& granted)
      : rig_(rig),
        driver_(rig.driver()),
        granted_(granted),
        copies_(rig.new_stream(rig.new_context(0))),
        over_there_(driver_, gpu(rig.gpus() - 1), granted.size_bytes(), all_gpus(driver_)),
        done_(rig.new_event(copies_.context)),
        doomed_(driver_.create_context(DeviceId{0})) {}
  ~BesideADestruction() {
    calls_.clear();
    if (!is_none(kept_)) driver_.release(kept_);
    if (!is_none(event_)) driver_.destroy_event(event_);
  }
  BesideADestruction(const BesideADestruction&) = delete;
  BesideADestruction& operator=(const BesideADestruction&) = delete;

  void destroy() {
    expect_stands("cuCtxDestroy", [this] { driver_.destroy_context(doomed_); });
  }
  void expect_stands(const char* what, std::function<void()> call) {
    EXPECT_TRUE(calls_.emplace_back(std::move(call)).stands()) << what;
  }
  void expect_returns(const char* what, std::function<void()> call) {
    EXPECT_TRUE(calls_.emplace_back(std::move(call)).returns()) << what;
  }
  void join() {
    for (Beside& call : calls_) call.join();
  }

  void expect_what_changes_no_access_returns() {
    const std::uint64_t size_bytes = granted_.size_bytes();
    expect_returns("cuMemAddressReserve", [=, this] { begin_ = driver_.reserve(size_bytes, 0); });
    expect_returns("cuMemCreate", [=, this] { chunk_ = driver_.create(gpu(0), size_bytes); });
    expect_returns("cuMemMap", [=, this] { driver_.map(begin_, size_bytes, chunk_); });
    expect_returns("cuMemUnmap, never granted", [=, this] { driver_.unmap(begin_, size_bytes); });
    expect_returns("cuMemGetAccess", [this] { driver_.access(granted_.address(), gpu(0)); });
    expect_returns("cuPointerGetAttribute", [this] { driver_.pointer_info(granted_.address()); });
    expect_returns("cuMemRetainAllocationHandle",
                   [this] { kept_ = driver_.retain_handle(granted_.address()); });
    expect_returns("cuEventQuery", [this] { EXPECT_TRUE(driver_.query_event(done_)); });
    expect_returns("cuDevicePrimaryCtxGetState", [this] { driver_.context_active(DeviceId{0}); });
    expect_returns("cuCtxSetCurrent", [this] {
      driver_.set_current_context(copies_.context);
      driver_.set_current_context({});
    });
    expect_returns("cuEventCreate, another context",
                   [this] { event_ = driver_.create_event(copies_.context); });
    expect_returns("a copy in a context of our own", [=, this] {
      driver_.copy(copies_, over_there_.address(), granted_.address(), size_bytes);
      EXPECT_TRUE(rig_.wait(copies_));
    });
  }
  /// With one GPU these calls return.
  void expect_changes_of_access(bool stand, std::function<void()> grant,
                                std::function<void()> unmap) {
    const auto expect =
        stand ? &BesideADestruction::expect_stands : &BesideADestruction::expect_returns;
    (this->*expect)("cuMemSetAccess", std::move(grant));
    (this->*expect)("cuMemUnmap of what is granted", std::move(unmap));
  }
  /// Makes the releases that were not tried during the destruction.
  void give_back() {
    driver_.release(chunk_);
    driver_.unreserve(begin_, granted_.size_bytes());
  }

 private:
  ContractRig& rig_;
  Driver& driver_;
  const TestMapping& granted_;
  const BoundStream copies_;
  const TestMapping over_there_;
  const EventHandle done_;
  const ContextHandle doomed_;
  Address begin_{};
  ChunkHandle chunk_{}, kept_{};
  EventHandle event_{};
  std::list<Beside> calls_;
};

// So a program that destroys a context behind a closed gate also blocks the gate's own switch: a
// gate needs a time limit that also covers the time between its unmap and its grant.
TYPED_TEST(StoppedStreams, ADestructionOfAContextStandsAndChangesOfAccessStandWithIt) {
  VMART_IN_CHILD(120);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  const std::vector<Accessor> all = all_gpus(driver);
  for (const bool by_hold : {false, true}) {
    if (by_hold && !driver.has_context_hold()) continue;
    SCOPED_TRACE(by_hold ? "under a hold" : "behind a stopped stream");
    const BoundStream busy = by_hold ? this->other_context_ : rig.new_stream(rig.context(0));
    const EventHandle let_go = rig.new_event(busy.context);
    TestMapping fresh(driver, gpu(0), rig.page(), {});
    BesideADestruction beside(rig, *this->spare_);
    StoppedStream stopped(rig, busy);
    ASSERT_TRUE(stopped.stands());
    if (by_hold) {
      driver.record(let_go, busy);
      driver.hold_context(rig.context(0), let_go);
    }
    beside.destroy();
    beside.expect_what_changes_no_access_returns();
    beside.expect_changes_of_access(
        all.size() > 1, [&] { fresh.grant(all); }, [&] { this->memory_->unmap(); });

    stopped.open();
    beside.join();
    beside.give_back();
    this->memory_->map();
    this->memory_->grant(all);
    this->expect_everything_works();
  }
}

TYPED_TEST(StoppedStreams, AllocationsAndPageableCopiesOfAnotherThreadReturn) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  const BoundStream busy = rig.new_stream(rig.context(0));
  const BoundStream copies = rig.new_stream(rig.context(0));
  Address allocated{};
  void* pinned = nullptr;
  std::vector<std::byte> pageable(1 << 16);
  std::optional<Beside> allocate_call, pinned_call, copy_call;
  StoppedStream stopped(rig, busy);
  ASSERT_TRUE(stopped.stands());
  allocate_call.emplace([&] { allocated = driver.allocate_plain(rig.context(0), 1 << 20); });
  EXPECT_TRUE(allocate_call->returns()) << "cudaMalloc";
  pinned_call.emplace([&] { pinned = driver.allocate_pinned(rig.context(0), 1 << 16); });
  EXPECT_TRUE(pinned_call->returns()) << "cudaHostAlloc";
  copy_call.emplace([&] {
    driver.copy(copies, this->plain_, address_of(pageable.data()), pageable.size());
    EXPECT_TRUE(rig.wait(copies));
  });
  EXPECT_TRUE(copy_call->returns()) << "a pageable copy of other memory";
  this->expect_everything_works();
  stopped.open();
  allocate_call->join();
  pinned_call->join();
  copy_call->join();
  driver.free_plain(rig.context(0), allocated);
  driver.free_pinned(rig.context(0), pinned);
}

TYPED_TEST(StoppedStreams, ALoadOfNewCodeStandsAndBlocksNoSwitch) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  const BoundStream busy = rig.new_stream(rig.context(0));
  std::optional<Beside> load_call;
  StoppedStream stopped(rig, busy);
  ASSERT_TRUE(stopped.stands());
  load_call.emplace([&] { rig.kernel(rig.context(0), sum_kernel()); });
  EXPECT_TRUE(load_call->stands());
  this->expect_switch_works();
  stopped.open();
  load_call->join();
}

}  // namespace
}  // namespace vma
