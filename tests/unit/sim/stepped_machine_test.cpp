// Goal: a whole simulated machine can be stepped: equal seeds give runs equal to the nanosecond,
// different seeds different ones, and a program that waits forever ends in an error. Method: the
// body runs as the main thread of a SteppedExecutor on "test-2" or "h200x2".
#include "driver/native_codes.hpp"
#include "base/units.hpp"
#include "support/stepped_executor.hpp"
#include "support/test_mapping.hpp"
#include "unit/sim/sim_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace vma {
namespace {

struct Outcome {
  std::uint64_t hash = 0;
  TimePoint end{0};
};

Outcome step(std::uint64_t seed, const std::string& machine,
             const std::function<void(SimRig&)>& body) {
  SteppedExecutor executor({seed, 4});
  SimOptions options;
  options.stepped = &executor;
  options.seed = seed;
  executor.run([&] {
    SimRig rig(machine, options);
    body(rig);
  });
  return {executor.interleaving_hash(), executor.now()};
}

/// Two streams and the host race for a word; its final value depends on the order.
std::uint64_t race(std::uint64_t seed, Outcome* outcome) {
  std::uint64_t left = 0;
  *outcome = step(seed, "test-2", [&](SimRig& rig) {
    const auto memory = rig.allocate(gpu(0), rig.page());
    rig.set_word(0, memory.address, 1);
    std::uint64_t* gate = rig.new_word();
    for (int i = 0; i < 2; ++i) {
      rig.batch_wait(rig.stream(i), gate, 1);
      rig.launch(rig.stream(i), [&, i](DeviceView& view) {
        for (int round = 0; round < 3; ++round) {
          const auto seen = view.load(memory.words());
          view.store(memory.words(), seen * 3 + static_cast<std::uint64_t>(i));
        }
      });
    }
    *gate = 1;
    rig.finish(rig.stream(0));
    rig.finish(rig.stream(1));
    left = rig.word_at(0, memory.address);
  });
  return left;
}

TEST(SteppedMachine, EqualSeedsGiveEqualRunsAndOthersGiveOthers) {
  std::set<std::uint64_t> results, hashes;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Outcome first, second;
    const std::uint64_t left = race(seed, &first);
    EXPECT_EQ(race(seed, &second), left) << "seed " << seed;
    EXPECT_EQ(first.hash, second.hash) << "seed " << seed;
    EXPECT_EQ(first.end, second.end) << "seed " << seed;
    results.insert(left);
    hashes.insert(first.hash);
  }
  EXPECT_GT(results.size(), 3u) << "the seeds do not reach different interleavings";
  EXPECT_GT(hashes.size(), 20u);
}

TEST(SteppedMachine, AnUnmapCanHitTheMiddleOfACopy) {
  int faulted = 0, whole = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    step(seed, "test-2", [&](SimRig& rig) {
      const auto from = rig.allocate(gpu(0), rig.page()), to = rig.allocate(gpu(1), rig.page());
      rig.driver().copy(rig.stream(0), to.address, from.address, rig.page());
      rig.driver().unmap(from.address, rig.page());
      const int native = native_of([&] { rig.finish(rig.stream(0)); });
      ++(native == 0 ? whole : faulted);
    });
  }
  EXPECT_GT(faulted, 0);
}

TEST(SteppedMachine, ACopyTakesItsTimeAndTransfersShareALink) {
  step(1, "h200x2", [](SimRig& rig) {
    Clock& clock = rig.driver().clock();
    const auto a = rig.allocate(gpu(0), 64 * MiB), b = rig.allocate(gpu(1), 64 * MiB);
    TimePoint before = clock.now();
    rig.driver().copy(rig.stream(0), b.address, a.address, 64 * MiB);
    rig.finish(rig.stream(0));
    const double alone = static_cast<double>((clock.now() - before).count()) / 1e3;
    EXPECT_NEAR(alone, 172 + 2.5, 5);  // 389 GB/s, and the two calls.

    const BoundStream other = rig.new_stream(0);
    before = clock.now();
    rig.driver().copy(rig.stream(0), b.address, a.address, 32 * MiB);
    rig.driver().copy(other, b.address + 32 * MiB, a.address + 32 * MiB, 32 * MiB);
    rig.finish(rig.stream(0));
    rig.finish(other);
    EXPECT_NEAR(static_cast<double>((clock.now() - before).count()) / 1e3, alone, 15) << "no gain";

    before = clock.now();
    rig.driver().copy(rig.stream(0), b.address, a.address, 32 * MiB);
    rig.driver().copy(rig.stream(1), a.address + 32 * MiB, b.address + 32 * MiB, 32 * MiB);
    rig.finish(rig.stream(0));
    rig.finish(rig.stream(1));
    EXPECT_LT(static_cast<double>((clock.now() - before).count()) / 1e3, alone * 0.65)
        << "two ways";
  });
}

TEST(SteppedMachine, AWaitGivesUpAtItsDeadlineInVirtualTime) {
  step(1, "test-2", [](SimRig& rig) {
    std::uint64_t* gate = rig.new_word();
    rig.batch_wait(rig.stream(0), gate, 1);
    const TimePoint deadline = rig.driver().clock().now() + std::chrono::hours(1);
    EXPECT_FALSE(rig.driver().wait_stream(rig.stream(0), deadline));
    EXPECT_GE(rig.driver().clock().now(), deadline);
    *gate = 1;
    EXPECT_TRUE(rig.driver().wait_stream(rig.stream(0), never));
  });
}

TEST(SteppedMachine, AStreamThatStandsForEverIsADeadLockByName) {
  try {
    step(1, "test-2", [](SimRig& rig) {
      rig.batch_wait(rig.stream(0), rig.new_word(), 1);
      rig.finish(rig.stream(0));
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("gpu0 stream"), std::string::npos) << error.what();
  }
}

TEST(SteppedMachine, MembersPollAWordThatTheHostStores) {
  step(3, "test-2", [](SimRig& rig) {
    std::uint64_t* arrived = rig.new_word();
    std::uint64_t* opened = rig.new_word();
    const auto opener = rig.driver().executor().spawn("opener", [&] {
      Poll poll;
      while (*arrived == 0) poll.pause();
      *opened = 1;
    });
    const WordOperation stop[] = {
        {WordOperation::Kind::write, address_of(arrived), 1},
        {WordOperation::Kind::wait_until_at_least, address_of(opened), 1}};
    rig.driver().batch(rig.stream(0), stop);
    rig.finish(rig.stream(0));
    opener->join();
  });
}

TEST(SteppedMachine, AMachineIsMadeAndEndedOutsideAlso) {
  SteppedExecutor executor;
  SimOptions options;
  options.stepped = &executor;
  auto rig = std::make_unique<SimRig>("test-2", options);
  std::uint64_t* gate = rig->new_word();
  rig->batch_wait(rig->stream(0), gate, 1);  // Stays stopped, and is dropped at the end.
  EXPECT_THROW(rig->finish(rig->stream(0)), Error) << "only members can be blocked";
  executor.run([&] { rig->finish(rig->stream(1)); });
  rig.reset();
}

TEST(SteppedMachine, HostThreadsCallBesideEachOtherInVirtualTime) {
  const Outcome outcome = step(5, "h200x2", [](SimRig& rig) {
    Clock& clock = rig.driver().clock();
    const TimePoint before = clock.now();
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < 2; ++i) {
      tasks.push_back(rig.driver().executor().spawn("maker", [&] {
        rig.driver().release(rig.driver().create(host(0), 64 * MiB));  // 12.7 ms of pinning each.
      }));
    }
    for (const auto& task : tasks) task->join();
    EXPECT_LT(clock.now() - before, std::chrono::milliseconds(14));
    EXPECT_GT(clock.now() - before, std::chrono::milliseconds(12));
  });
  EXPECT_GT(outcome.end, std::chrono::milliseconds(12));
}

}  // namespace
}  // namespace vma
