// Goal: what stops by suspension rely on: all work of the program stands wherever it is, memory may
// be replaced under it, the runtime's own contexts go on, and everything continues afterwards as if
// nothing had been. Method: a kernel that ends only when the test says so and counts what it does;
// copies and launches that are under way when the program is suspended.
#include "contract/beside.hpp"
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
    Slot(Suspension& test, Place first, Place second, std::uint64_t size_bytes)
        : test_(test), driver_(test.driver()), all_(all_gpus(driver_)) {
      for (const Place at : {first, second}) {
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

    /// What still reads the former side afterwards finds other bytes there. Requires: nothing that
    /// uses the slot runs.
    void move() {
      const std::size_t to = 1 - side_, from = side_;
      test_.copy_in_own(sides_[to]->address(), sides_[from]->address(), size_bytes());
      driver_.unmap(begin_, size_bytes());
      side_ = to;
      show();
      test_.fill_in_own(sides_[from]->address(), size_bytes());
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

  /// A kernel that counts in the first words of the slot until it is told to end.
  class Endless {
   public:
    Endless(ContractRig& rig, BoundStream stream, const Slot& slot)
        : rig_(rig), stream_(stream), stop_(rig.new_word()), beats_(rig.new_word()) {
      rig.launch(stream, beat_kernel(), stop_, slot.words(), counted(slot), beats_);
    }
    ~Endless() { end(); }
    Endless(const Endless&) = delete;
    Endless& operator=(const Endless&) = delete;

    std::uint64_t beats() const { return now_in(beats_); }
    bool goes_on(std::uint64_t more = 1) const {
      const std::uint64_t before = beats();
      const SteadyClock clock;
      const TimePoint deadline = clock.now() + std::chrono::seconds(20);
      Poll poll;
      while (beats() < before + more) {
        if (clock.now() > deadline) return false;
        poll.pause();
      }
      return true;
    }
    /// How long a beat takes at most, as it runs now. Zero if it does not go on.
    std::chrono::nanoseconds beat_time() const {
      constexpr int beats_timed = 10;
      const SteadyClock clock;
      const TimePoint begin = clock.now();
      if (!goes_on(beats_timed)) return TimePoint(0);
      return (clock.now() - begin) / beats_timed;
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
    own_word_ = this->rig().new_word();
    // The first use of a kernel loads it, which waits for work.
    for (const Kernel* each : {&store_kernel(), &spin_kernel()}) this->rig().kernel(own_, *each);
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
  void fill_in_own(Address begin, std::uint64_t size_bytes) {
    this->driver().fill(own_stream_, begin, std::byte{0xEE}, size_bytes);
    ASSERT_TRUE(this->rig().wait(own_stream_));
  }
  /// Work in an own context goes on for at least that long, by the clock of this computer.
  void run_in_own(std::chrono::nanoseconds at_least) {
    const SteadyClock clock;
    const TimePoint end = clock.now() + at_least;
    do {
      std::uint64_t* const word = own_word_;
      const std::uint64_t value = ++own_stores_;
      this->rig().launch(own_stream_, spin_kernel(), std::uint64_t{100'000});
      this->rig().launch(own_stream_, store_kernel(), word, value);
      ASSERT_TRUE(this->rig().wait(own_stream_)) << "own contexts go on";
      ASSERT_EQ(now_in(word), value);
    } while (clock.now() < end);
  }

  /// Few, so that a beat of the kernel is short.
  static std::uint64_t counted(const Slot& slot) {
    constexpr std::uint64_t words_max = 4096;
    return std::min(slot.count(), words_max);
  }
  std::unique_ptr<Slot> slot_between(Place one, Place other) {
    auto slot = std::make_unique<Slot>(*this, one, other, this->rig().page());
    this->driver().fill(this->rig().stream(0), slot->begin(), std::byte{0}, slot->size_bytes());
    EXPECT_TRUE(this->rig().wait(this->rig().stream(0)));
    return slot;
  }
  std::uint64_t words_that_differ(const Slot& slot, std::uint64_t value) {
    std::vector<std::uint64_t> words(counted(slot));
    const std::uint64_t bytes = words.size() * sizeof(std::uint64_t);
    EXPECT_EQ(this->rig().run_copy(0, address_of(words.data()), slot.begin(), bytes), 0);
    return static_cast<std::uint64_t>(
        std::ranges::count_if(words, [&](std::uint64_t word) { return word != value; }));
  }
  Place second_place() { return this->rig().gpus() > 1 ? gpu(1) : host(0); }

  std::vector<DeviceId> all_;
  ContextHandle own_{};
  BoundStream own_stream_;
  std::uint64_t* own_word_ = nullptr;
  std::uint64_t own_stores_ = 0;
};

TYPED_TEST_SUITE(Suspension, ContractMachines, MachineNames);

TYPED_TEST(Suspension, StandsInTheMiddleOfAKernelAndGoesOn) {
  VMART_IN_CHILD(60)
  const auto slot = this->slot_between(gpu(0), this->second_place());
  typename TestFixture::Endless kernel(this->rig(), this->rig().stream(0), *slot);
  for (int round = 0; round < 20; ++round) {
    const std::chrono::nanoseconds beat = kernel.beat_time();
    ASSERT_GT(beat, TimePoint(0)) << "it does not go on";
    const SuspensionHandle suspended = this->driver().suspend(this->all_);
    const std::uint64_t before = kernel.beats();
    this->run_in_own(100 * beat);
    EXPECT_EQ(kernel.beats(), before);
    this->driver().resume(suspended);
    ASSERT_TRUE(kernel.goes_on());
  }
  EXPECT_EQ(this->words_that_differ(*slot, kernel.end()), 0u);
}

TYPED_TEST(Suspension, MemoryMovesUnderAKernel) {
  VMART_IN_CHILD(60)
  for (const Place other : {this->second_place(), host(0)}) {
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
  this->run_in_own(std::chrono::milliseconds(5));
  EXPECT_EQ(now_in(word), 0u);
  EXPECT_FALSE(this->driver().query_stream(stream));
  EXPECT_FALSE(this->driver().query_event(event));
  this->driver().resume(suspended);
  EXPECT_TRUE(this->rig().wait(event));
  EXPECT_EQ(now_in(word), 1u);
}

/// So many copies that some are under way when all stands: more if they had ended.
TYPED_TEST(Suspension, CopiesStandAndEndWhereTheMemoryIs) {
  VMART_IN_CHILD(120)
  constexpr std::uint64_t bytes_max = std::uint64_t{256} << 20, seed = 7'000'000;
  constexpr int rounds = 6, copies_max = 4096;
  constexpr std::chrono::milliseconds a_while(20);  // A copy takes less.
  ContractRig& rig = this->rig();
  const std::uint64_t sixteenth = this->driver().free_bytes(DeviceId{0}) / 16;
  const std::uint64_t bytes = std::min(bytes_max, sixteenth) / rig.page() * rig.page();
  typename TestFixture::Slot slot(*this, gpu(0), this->second_place(), bytes);
  ASSERT_EQ(rig.run(0, fill_kernel(), slot.words(), slot.count(), seed), 0);
  const TestMapping target(this->driver(), host(0), bytes, all_gpus(this->driver()));
  const BoundStream stream = rig.new_stream(rig.context(0));
  std::vector<std::uint64_t> words(slot.count());
  int copies = 2;
  for (int round = 0; round < rounds;) {
    this->driver().fill(stream, target.address(), std::byte{0}, bytes);
    ASSERT_TRUE(rig.wait(stream));
    for (int copy = 0; copy < copies; ++copy) {
      this->driver().copy(stream, target.address(), slot.begin(), bytes);
    }
    const SuspensionHandle suspended = this->driver().suspend(this->all_);
    this->run_in_own(a_while);  // A simulated machine moves bytes before the time of their end.
    const bool under_way = !this->driver().query_stream(stream);
    slot.move();
    this->run_in_own(a_while);
    EXPECT_EQ(this->driver().query_stream(stream), !under_way);
    this->driver().resume(suspended);
    ASSERT_TRUE(rig.wait(stream));
    ASSERT_EQ(rig.run_copy(0, address_of(words.data()), target.address(), bytes), 0);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < words.size(); ++i) wrong += words[i] != seed + i;
    EXPECT_EQ(wrong, 0u);
    if (under_way) {
      ++round;
    } else {
      copies *= 2;
      ASSERT_LE(copies, copies_max) << "no copy was under way when all stopped";
    }
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
  this->run_in_own(std::chrono::milliseconds(5));
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

/// Its thread may wait for the end; nobody waits for its thread. It is destroyed once the kernel
/// has ended, because that waits for all work of the GPU.
TYPED_TEST(Suspension, AnOwnContextThatIsCreatedMeanwhileDelaysNoMove) {
  VMART_IN_CHILD(60)
  const auto slot = this->slot_between(gpu(0), this->second_place());
  typename TestFixture::Endless kernel(this->rig(), this->rig().stream(0), *slot);
  std::vector<ContextHandle> made(4);
  for (ContextHandle& context : made) {
    const SuspensionHandle suspended = this->driver().suspend(this->all_);
    Beside creates([&] { context = this->driver().create_own_context(DeviceId{0}); });
    const SteadyClock clock;
    const TimePoint begin = clock.now();
    slot->move();
    EXPECT_LT(clock.now() - begin, std::chrono::seconds(5));
    this->run_in_own(std::chrono::milliseconds(1));
    this->driver().resume(suspended);
    creates.join();
    ASSERT_TRUE(kernel.goes_on());
  }
  EXPECT_EQ(this->words_that_differ(*slot, kernel.end()), 0u);
  for (const ContextHandle context : made) this->driver().destroy_context(context);
}

TYPED_TEST(Suspension, AnOldOneIsNotEndedTwice) {
  VMART_IN_CHILD(60)
  const auto slot = this->slot_between(gpu(0), this->second_place());
  typename TestFixture::Endless kernel(this->rig(), this->rig().stream(0), *slot);
  const std::chrono::nanoseconds beat = kernel.beat_time();
  const SuspensionHandle first = this->driver().suspend(this->all_);
  this->driver().resume(first);
  const SuspensionHandle second = this->driver().suspend(this->all_);
  this->driver().resume(first);
  const std::uint64_t before = kernel.beats();
  this->run_in_own(100 * beat);
  EXPECT_EQ(kernel.beats(), before);
  this->driver().resume(second);
  EXPECT_TRUE(kernel.goes_on());
  EXPECT_NE(native_of([&] { this->driver().suspend({}); }), 0) << "no GPU is named";
}

}  // namespace
}  // namespace vma
