// Goal: what stops by suspension rely on: all work of the program stands wherever it is, memory may
// be replaced under it, the runtime's own contexts go on, and everything continues afterwards as if
// nothing had been. Method: a kernel that ends only when the test says so and counts what it does;
// copies and launches that are under way when the program is suspended.
#include "contract/contract_test.hpp"

#include <vma/error.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

namespace vma {
namespace {

/// Before the driver is opened: it watches libcuda's calls only if asked.
const bool asked_for = setenv("VMART_STOP", "suspend", 1) == 0;

std::uint64_t now_in(const std::uint64_t* word) {
  return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load();
}

template <typename Machine>
class Suspension : public ContractTest<Machine> {
 protected:
  /// Two chunks with staging mappings, and a slot that shows one of them.
  class Slot {
   public:
    Slot(Suspension& test, Location first, Location second, std::uint64_t size_bytes)
        : test_(test), driver_(test.driver()), all_(all_gpus(driver_)) {
      for (const Location at : {first, second}) {
        sides_.push_back(std::make_unique<TestMapping>(driver_, at, size_bytes, all_));
      }
      begin_ = driver_.reserve(size_bytes, 0);
      show();
    }
    ~Slot() {
      driver_.unmap(begin_, size_bytes());
      driver_.unreserve(begin_, size_bytes());
    }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

    std::uint64_t* words() const { return static_cast<std::uint64_t*>(to_pointer(begin_)); }
    Address begin() const { return begin_; }
    std::uint64_t count() const { return sides_.front()->words(); }
    std::uint64_t size_bytes() const { return sides_.front()->size_bytes(); }

    /// Requires: nothing that uses the slot runs.
    void move() {
      const std::size_t to = 1 - side_;
      test_.copy_in_own(sides_[to]->address(), sides_[side_]->address(), size_bytes());
      driver_.unmap(begin_, size_bytes());
      side_ = to;
      show();
    }

   private:
    void show() {
      driver_.map(begin_, size_bytes(), sides_[side_]->chunk());
      driver_.grant(begin_, size_bytes(), all_);
    }

    Suspension& test_;
    Driver& driver_;
    const std::vector<Accessor> all_;
    std::vector<std::unique_ptr<TestMapping>> sides_;
    std::size_t side_ = 0;
    Address begin_{};
  };

  /// A kernel that runs until it is told to end.
  class Endless {
   public:
    Endless(ContractRig& rig, BoundStream stream, const Slot& slot)
        : rig_(rig), stream_(stream), stop_(rig.new_word()), beats_(rig.new_word()) {
      rig.launch(stream, beat_kernel(), stop_, slot.words(), slot.count(), beats_);
    }
    ~Endless() { end(); }
    Endless(const Endless&) = delete;
    Endless& operator=(const Endless&) = delete;

    std::uint64_t beats() const { return now_in(beats_); }
    bool goes_on() const {
      const std::uint64_t before = beats();
      const SteadyClock clock;
      const TimePoint deadline = clock.now() + std::chrono::seconds(20);
      Poll poll;
      while (beats() == before) {
        if (clock.now() > deadline) return false;
        poll.pause();
      }
      return true;
    }
    /// Its number of beats.
    std::uint64_t end() {
      std::atomic_ref(*stop_).store(1);
      EXPECT_TRUE(rig_.wait(stream_));
      return beats();
    }

   private:
    ContractRig& rig_;
    const BoundStream stream_;
    std::uint64_t* const stop_;
    std::uint64_t* const beats_;
  };

  void SetUp() override {
    ContractTest<Machine>::SetUp();
    if (this->IsSkipped()) return;
    ASSERT_TRUE(asked_for);
    for (int gpu = 0; gpu < this->rig().gpus(); ++gpu) all_.push_back(DeviceId{gpu});
    try {
      this->driver().resume(this->driver().suspend(all_));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      GTEST_SKIP() << "SKIPPED: " << error.what();
    }
    if (this->needs_child()) return;
    own_ = this->driver().create_own_context(DeviceId{0});
    own_stream_ = this->driver().create_stream(own_, StreamKind::non_blocking);
    // The first use of a kernel loads it, which waits for work.
    this->rig().kernel(own_, store_kernel());
    for (int gpu = 0; gpu < this->rig().gpus(); ++gpu) {
      for (const Kernel* each : {&beat_kernel(), &store_kernel(), &fill_kernel()}) {
        this->rig().kernel(this->rig().context(gpu), *each);
      }
    }
  }

  void copy_in_own(Address target, Address source, std::uint64_t size_bytes) {
    this->driver().copy(own_stream_, target, source, size_bytes);
    ASSERT_TRUE(this->rig().wait(own_stream_));
  }
  std::unique_ptr<Slot> slot_between(Location one, Location other) {
    auto slot = std::make_unique<Slot>(*this, one, other, 4 * this->rig().page());
    this->driver().fill(this->rig().stream(0), slot->begin(), std::byte{0}, slot->size_bytes());
    EXPECT_TRUE(this->rig().wait(this->rig().stream(0)));
    return slot;
  }
  std::uint64_t words_that_differ(const Slot& slot, std::uint64_t value) {
    std::vector<std::uint64_t> words(slot.count());
    const Address target = address_of(words.data());
    EXPECT_EQ(this->rig().run_copy(0, target, slot.begin(), slot.size_bytes()), 0);
    return static_cast<std::uint64_t>(
        std::ranges::count_if(words, [&](std::uint64_t word) { return word != value; }));
  }
  Location second_place() { return this->rig().gpus() > 1 ? gpu(1) : host(0); }

  std::vector<DeviceId> all_;
  ContextHandle own_{};
  BoundStream own_stream_;
};

TYPED_TEST_SUITE(Suspension, ContractMachines, MachineNames);

TYPED_TEST(Suspension, StandsInTheMiddleOfAKernelAndGoesOn) {
  VMART_IN_CHILD(60)
  const auto slot = this->slot_between(gpu(0), this->second_place());
  typename TestFixture::Endless kernel(this->rig(), this->rig().stream(0), *slot);
  ASSERT_TRUE(kernel.goes_on());
  for (int round = 0; round < 20; ++round) {
    const SuspensionHandle suspended = this->driver().suspend(this->all_);
    const std::uint64_t before = kernel.beats();
    // Work in an own context, which a wait of ours needs: time for many beats.
    std::uint64_t* const word = this->rig().new_word();
    this->rig().launch(this->own_stream_, store_kernel(), word, std::uint64_t{1});
    EXPECT_TRUE(this->rig().wait(this->own_stream_)) << "own contexts go on";
    EXPECT_EQ(now_in(word), 1u);
    EXPECT_EQ(kernel.beats(), before);
    this->driver().resume(suspended);
    ASSERT_TRUE(kernel.goes_on());
  }
  EXPECT_EQ(this->words_that_differ(*slot, kernel.end()), 0u);
}

TYPED_TEST(Suspension, MemoryMovesUnderAKernel) {
  VMART_IN_CHILD(60)
  for (const Location other : {this->second_place(), host(0)}) {
    const auto slot = this->slot_between(gpu(0), other);
    typename TestFixture::Endless kernel(this->rig(), this->rig().stream(0), *slot);
    for (int round = 0; round < 25; ++round) {
      ASSERT_TRUE(kernel.goes_on());
      const SuspensionHandle suspended = this->driver().suspend(this->all_);
      slot->move();
      this->driver().resume(suspended);
    }
    EXPECT_EQ(this->words_that_differ(*slot, kernel.end()), 0u);
  }
}

TYPED_TEST(Suspension, NothingBeginsBeforeItEnds) {
  VMART_IN_CHILD(60)
  std::uint64_t* const word = this->rig().new_word();
  const BoundStream stream = this->rig().stream(0);
  const EventHandle event = this->rig().new_event(stream.context);
  const SuspensionHandle suspended = this->driver().suspend(this->all_);
  this->rig().launch(stream, store_kernel(), word, std::uint64_t{1});
  this->driver().record(event, stream);
  std::uint64_t* const other = this->rig().new_word();
  this->rig().launch(this->own_stream_, store_kernel(), other, std::uint64_t{1});
  EXPECT_TRUE(this->rig().wait(this->own_stream_));
  EXPECT_EQ(now_in(word), 0u);
  EXPECT_FALSE(this->driver().query_stream(stream));
  EXPECT_FALSE(this->driver().query_event(event));
  this->driver().resume(suspended);
  EXPECT_TRUE(this->rig().wait(event));
  EXPECT_EQ(now_in(word), 1u);
}

TYPED_TEST(Suspension, CopiesStandAndEndWhereTheMemoryIs) {
  VMART_IN_CHILD(60)
  ContractRig& rig = this->rig();
  const auto slot = this->slot_between(gpu(0), this->second_place());
  const TestMapping target(this->driver(), gpu(0), slot->size_bytes(), all_gpus(this->driver()));
  const BoundStream stream = rig.new_stream(rig.context(0));
  for (std::uint64_t round = 1; round <= 20; ++round) {
    ASSERT_EQ(rig.run(0, fill_kernel(), slot->words(), slot->count(), round << 32), 0);
    for (int copy = 0; copy < 8; ++copy) {
      this->driver().copy(stream, target.address(), slot->begin(), slot->size_bytes());
    }
    const SuspensionHandle suspended = this->driver().suspend(this->all_);
    slot->move();
    this->driver().resume(suspended);
    ASSERT_TRUE(rig.wait(stream));
    EXPECT_EQ(rig.mismatches(0, target, round << 32), 0u);
  }
}

TYPED_TEST(Suspension, AGreenContextStandsToo) {
  VMART_IN_CHILD(60)
  std::optional<ContextHandle> green;
  try {
    green = this->rig().new_green_context(0);
  } catch (const Error& error) {
    GTEST_SKIP() << "SKIPPED: " << error.what();
  }
  const BoundStream stream = this->rig().new_stream(*green);
  std::uint64_t* const word = this->rig().new_word();
  this->rig().kernel(*green, store_kernel());
  const SuspensionHandle suspended = this->driver().suspend(this->all_);
  this->rig().launch(stream, store_kernel(), word, std::uint64_t{1});
  std::uint64_t* const other = this->rig().new_word();
  this->rig().launch(this->own_stream_, store_kernel(), other, std::uint64_t{1});
  EXPECT_TRUE(this->rig().wait(this->own_stream_));
  EXPECT_EQ(now_in(word), 0u);
  this->driver().resume(suspended);
  EXPECT_TRUE(this->rig().wait(stream));
  EXPECT_EQ(now_in(word), 1u);
}

TYPED_TEST(Suspension, OtherGpusGoOn) {
  VMART_NEEDS_GPUS(2)
  VMART_IN_CHILD(60)
  const auto slot = this->slot_between(gpu(1), gpu(0));
  typename TestFixture::Endless kernel(this->rig(), this->rig().stream(1), *slot);
  ASSERT_TRUE(kernel.goes_on());
  const DeviceId first[] = {DeviceId{0}};
  const SuspensionHandle suspended = this->driver().suspend(first);
  EXPECT_TRUE(kernel.goes_on());
  this->driver().resume(suspended);
}

TYPED_TEST(Suspension, AnOldOneIsNotEndedTwice) {
  VMART_IN_CHILD(60)
  const auto slot = this->slot_between(gpu(0), this->second_place());
  typename TestFixture::Endless kernel(this->rig(), this->rig().stream(0), *slot);
  const SuspensionHandle first = this->driver().suspend(this->all_);
  this->driver().resume(first);
  const SuspensionHandle second = this->driver().suspend(this->all_);
  this->driver().resume(first);
  const std::uint64_t before = kernel.beats();
  std::uint64_t* const word = this->rig().new_word();
  this->rig().launch(this->own_stream_, store_kernel(), word, std::uint64_t{1});
  EXPECT_TRUE(this->rig().wait(this->own_stream_));
  EXPECT_EQ(kernel.beats(), before);
  this->driver().resume(second);
  EXPECT_TRUE(kernel.goes_on());
  EXPECT_NE(native_of([&] { this->driver().suspend({}); }), 0) << "no GPU is named";
}

}  // namespace
}  // namespace vma
