// Goal: suspended work stands between any two of its accesses, goes on with the memory that is
// there then, and takes as much longer as it stopped; own contexts go on, and are ordered with it.
// Method: stepped machines under many seeds, with kernels and copies that are under way; the
// machine's own times.
#include "driver/native_codes.hpp"
#include "machine/machine_file.hpp"
#include "support/stepped_executor.hpp"
#include "support/test_mapping.hpp"
#include "unit/sim/sim_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

namespace vma {
namespace {

constexpr std::array both{DeviceId{0}, DeviceId{1}};

void step(std::uint64_t seed, const std::string& machine,
          const std::function<void(SimRig&, SteppedExecutor&)>& body) {
  SteppedExecutor executor({seed, 4});
  SimOptions options;
  options.stepped = &executor;
  options.seed = seed;
  options.detect_races = true;
  executor.run([&] {
    SimRig rig(machine, options);
    body(rig, executor);
  });
}

/// A slot that shows one of two chunks, which a stream of an own context copies into each other.
class Slot {
 public:
  explicit Slot(SimRig& rig)
      : rig_(rig),
        own_(rig.driver().create_own_context(DeviceId{0})),
        stream_(rig.driver().create_stream(own_, StreamKind::non_blocking)),
        sides_{rig.allocate(gpu(0), rig.page()), rig.allocate(gpu(1), rig.page())},
        begin_(rig.driver().reserve(rig.page(), 0)) {
    show();
    rig.driver().fill(rig.stream(0), begin_, std::byte{0}, rig.page());
    rig.finish(rig.stream(0));
  }
  Address begin() const { return begin_; }
  std::uint64_t* words() const { return static_cast<std::uint64_t*>(to_pointer(begin_)); }
  BoundStream own_stream() const { return stream_; }

  void move_suspended() {
    const SuspensionHandle suspended = rig_.driver().suspend(both);
    const std::size_t to = 1 - shown_;
    rig_.driver().copy(stream_, sides_[to].address, sides_[shown_].address, rig_.page());
    rig_.finish(stream_);
    rig_.driver().unmap(begin_, rig_.page());
    shown_ = to;
    show();
    rig_.driver().resume(suspended);
  }

 private:
  void show() {
    rig_.driver().map(begin_, rig_.page(), sides_[shown_].chunk);
    rig_.grant_all(begin_, rig_.page());
  }

  SimRig& rig_;
  const ContextHandle own_;
  const BoundStream stream_;
  const std::array<SimRig::Memory, 2> sides_;
  std::size_t shown_ = 0;
  const Address begin_;
};

TEST(Suspensions, LoseNoWriteOfAKernelUnderAnySeed) {
  constexpr std::uint64_t words = 24, rounds = 4;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    step(seed, "test-2", [&](SimRig& rig, SteppedExecutor&) {
      Slot slot(rig);
      for (int device = 0; device < 2; ++device) {
        rig.launch(rig.stream(device), [&, device](DeviceView& view) {
          std::uint64_t* const half = slot.words() + device * static_cast<std::ptrdiff_t>(words);
          for (std::uint64_t round = 0; round < rounds; ++round) {
            for (std::uint64_t i = 0; i < words; ++i) view.store(half + i, view.load(half + i) + 1);
          }
        });
      }
      for (int move = 0; move < 3; ++move) slot.move_suspended();
      for (int device = 0; device < 2; ++device) rig.finish(rig.stream(device));
      for (std::uint64_t i = 0; i < 2 * words; ++i) {
        ASSERT_EQ(rig.word_at(0, slot.begin() + 8 * i), rounds) << "seed " << seed;
      }
      for (const Race& race : rig.driver().races()) {
        ADD_FAILURE() << "seed " << seed << ": " << race.earlier << ", " << race.later;
      }
    });
  }
}

TEST(Suspensions, CopiesUnderWayEndWithTheBytesThatAreThere) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    step(seed, "test-2", [&](SimRig& rig, SteppedExecutor&) {
      Slot slot(rig);
      const auto source = rig.allocate(gpu(1), rig.page());
      rig.driver().fill(rig.stream(1), source.address, std::byte{7}, rig.page());
      rig.finish(rig.stream(1));
      rig.driver().copy(rig.stream(1), slot.begin(), source.address, rig.page());
      slot.move_suspended();
      rig.finish(rig.stream(1));
      for (std::uint64_t at = 0; at < rig.page(); at += 256) {
        ASSERT_EQ(rig.word_at(0, slot.begin() + at), 0x0707070707070707u) << "seed " << seed;
      }
    });
  }
}

TEST(Suspensions, AWorkThatIsOrderedOnlyByOneIsNoRaceAndOneBesideItIs) {
  std::size_t beside = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    step(seed, "test-2", [&](SimRig& rig, SteppedExecutor&) {
      Slot slot(rig);
      const auto write = [&](DeviceView& view) {
        for (int i = 0; i < 20; ++i) view.store(slot.words() + i, std::uint64_t{1});
      };
      rig.launch(rig.stream(0), write);
      rig.launch(slot.own_stream(), write);
      rig.finish(rig.stream(0));
      rig.finish(slot.own_stream());
      beside += rig.driver().races().size();
    });
  }
  EXPECT_GT(beside, 0u);
}

TEST(Suspensions, TakeTheTimesOfTheMachineAndWorkTakesAsMuchLonger) {
  step(1, "h200x2", [](SimRig& rig, SteppedExecutor& executor) {
    const DeviceId first[] = {DeviceId{0}};
    const auto us = [](TimePoint time) { return static_cast<double>(time.count()) / 1e3; };
    rig.launch_spin(rig.stream(0), std::chrono::milliseconds(5));
    const TimePoint begin = executor.now();
    const SuspensionHandle suspended = rig.driver().suspend(first);
    EXPECT_NEAR(us(executor.now() - begin), 460 + 20 * 23.0, 1) << "8 channels for kernels, 12";
    executor.sleep(std::chrono::milliseconds(50));
    EXPECT_FALSE(rig.driver().query_stream(rig.stream(0)));
    const TimePoint before = executor.now();
    rig.driver().resume(suspended);
    EXPECT_NEAR(us(executor.now() - before), 80 + 20 * 18.5, 1);
    rig.finish(rig.stream(0));
    const double took = us(executor.now() - begin);
    EXPECT_GE(took, 5'000 + 50'000);
    EXPECT_LE(took, 5'000 + 50'000 + 920 + 450 + 100);
  });
}

TEST(Suspensions, LeaveTheOtherGpuAlone) {
  step(1, "h200x2", [](SimRig& rig, SteppedExecutor& executor) {
    const DeviceId first[] = {DeviceId{0}};
    rig.launch_spin(rig.stream(1), std::chrono::milliseconds(5));
    const TimePoint begin = executor.now();
    const SuspensionHandle suspended = rig.driver().suspend(first);
    rig.finish(rig.stream(1));
    EXPECT_LT(executor.now() - begin, std::chrono::microseconds(5'100));
    rig.driver().resume(suspended);
  });
}

TEST(Suspensions, AreOfSingleContextsAsTheKernelModuleDoesThem) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    step(seed, "test-2", [](SimRig& rig, SteppedExecutor& executor) {
      SimDriver& driver = rig.driver();
      const ContextHandle off = driver.create_context(DeviceId{0});
      const ContextHandle gone = driver.create_context(DeviceId{0});
      driver.destroy_context(gone);
      const BoundStream stands = driver.create_stream(off, StreamKind::non_blocking);
      const std::array named{off, gone, off};
      rig.launch_spin(stands, std::chrono::milliseconds(1));
      rig.launch_spin(rig.stream(0), std::chrono::milliseconds(1));
      driver.switch_channels(named, true);
      driver.switch_channels(named, true);
      rig.finish(rig.stream(0));
      executor.sleep(std::chrono::milliseconds(10));
      EXPECT_FALSE(driver.query_stream(stands));
      driver.switch_channels(named, false);
      rig.finish(stands);
      driver.destroy_context(off);
    });
  }
}

TEST(Suspensions, LetNoContextBeOpenedOrClosedButOwnOnes) {
  step(3, "test-2", [](SimRig& rig, SteppedExecutor& executor) {
    const ContextHandle doomed = rig.driver().create_context(DeviceId{1});
    const SuspensionHandle suspended = rig.driver().suspend(both);
    const ContextHandle own = rig.driver().create_own_context(DeviceId{1});
    TimePoint opened{0}, closed{0};
    const auto opener = executor.spawn("opener", [&] {
      rig.driver().create_context(DeviceId{0});
      opened = executor.now();
    });
    const auto closer = executor.spawn("closer", [&] {
      rig.driver().destroy_context(doomed);
      closed = executor.now();
    });
    executor.sleep(std::chrono::milliseconds(3));
    rig.driver().destroy_context(own);
    const TimePoint before = executor.now();
    rig.driver().resume(suspended);
    opener->join();
    closer->join();
    EXPECT_GE(opened, before);
    EXPECT_GE(closed, before);
  });
}

TEST(Suspensions, OneFollowsTheOther) {
  step(5, "test-2", [](SimRig& rig, SteppedExecutor& executor) {
    int standing = 0, seen_max = 0;
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < 3; ++i) {
      tasks.push_back(executor.spawn("suspender", [&] {
        for (int round = 0; round < 5; ++round) {
          const SuspensionHandle suspended = rig.driver().suspend(both);
          seen_max = std::max(seen_max, ++standing);
          executor.sleep(std::chrono::microseconds(20));
          --standing;
          rig.driver().resume(suspended);
          rig.driver().resume(suspended);
        }
      }));
    }
    for (const auto& task : tasks) task->join();
    EXPECT_EQ(seen_max, 1);
  });
}

TEST(Suspensions, OfEverythingTakeOwnContextsOffToo) {
  step(6, "test-2", [](SimRig& rig, SteppedExecutor& executor) {
    const ContextHandle own = rig.driver().create_own_context(DeviceId{0});
    const BoundStream stream = rig.driver().create_stream(own, StreamKind::non_blocking);
    const Address word = address_of(rig.new_word());
    const auto write = [&](std::uint64_t value) {
      const WordOperation operation{WordOperation::Kind::write, word, value};
      rig.driver().batch(stream, {&operation, 1});
    };
    const SuspensionHandle all = rig.driver().suspend_everything(both);
    write(1);
    executor.sleep(std::chrono::milliseconds(1));
    EXPECT_FALSE(rig.driver().query_stream(stream));
    rig.driver().resume(all);
    rig.finish(stream);
    const SuspensionHandle program = rig.driver().suspend(both);
    write(2);
    rig.finish(stream);
    rig.driver().resume(program);
  });
}

TEST(Suspensions, EndWithTheMachine) {
  SimRig rig("test-2");
  std::uint64_t* const word = rig.new_word();
  rig.driver().suspend(both);
  rig.launch(rig.stream(0), [word](DeviceView& view) { view.store(word, std::uint64_t{1}); });
  EXPECT_FALSE(rig.driver().query_stream(rig.stream(0)));
}

TEST(Suspensions, AreRefusedWhereTheMachineHasNone) {
  MachineDescription machine = load_machine("test-2");
  machine.costs.suspend_us = 0;
  SimDriver driver(machine);
  try {
    driver.suspend(both);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("costs.suspend_us"), std::string::npos);
  }
  const DeviceId none[] = {DeviceId{7}};
  EXPECT_EQ(native_of([&] { driver.suspend(none); }), native_invalid_device);
}

}  // namespace
}  // namespace vma
