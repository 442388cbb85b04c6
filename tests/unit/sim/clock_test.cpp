// Goal: the time of a threaded machine comes from its machine file, not from the computer that
// simulates it. Method: durations of single calls and of work on streams, in virtual time.
#include "base/units.hpp"
#include "unit/sim/sim_rig.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace vma {
namespace {

double us(TimePoint time) {
  return static_cast<double>(time.count()) / 1e3;
}

struct SimClockTest : testing::Test {
  SimRig rig{"h200x2"};
  TimePoint now() { return rig.driver().clock().now(); }
  template <typename Body>
  double took(Body body) {
    const TimePoint before = now();
    body();
    return us(now() - before);
  }
};

TEST_F(SimClockTest, GrantsCostLessBesideAKeeper) {
  const Address begin = rig.driver().reserve(64 * MiB, 0);
  const ChunkHandle chunk = rig.driver().create(gpu(0), 64 * MiB);
  rig.driver().map(begin, 64 * MiB, chunk);
  EXPECT_NEAR(took([&] { rig.grant_all(begin, 64 * MiB); }), 1000, 5) << "cold";
  rig.driver().unmap(begin, 64 * MiB);
  rig.driver().map(begin, 64 * MiB, chunk);
  EXPECT_NEAR(took([&] { rig.grant_all(begin, 64 * MiB); }), 1000, 5) << "cold again";

  rig.allocate(gpu(0), 2 * MiB);  // A keeper.
  rig.driver().unmap(begin, 64 * MiB);
  rig.driver().map(begin, 64 * MiB, chunk);
  EXPECT_NEAR(took([&] { rig.grant_all(begin, 64 * MiB); }), 67, 1) << "later, beside a keeper";
  const ChunkHandle fresh = rig.driver().create(gpu(0), 64 * MiB);
  rig.driver().unmap(begin, 64 * MiB);
  rig.driver().map(begin, 64 * MiB, fresh);
  EXPECT_NEAR(took([&] { rig.grant_all(begin, 64 * MiB); }), 160, 1) << "first, beside a keeper";
  EXPECT_NEAR(took([&] { rig.driver().unmap(begin, 64 * MiB); }), 33.7, 1);
}

TEST_F(SimClockTest, ManyChunksInOneGrantCostAsMeasured) {
  rig.allocate(gpu(0), 2 * MiB);
  const Address begin = rig.driver().reserve(1 * GiB, 0);
  for (int i = 0; i < 64; ++i) {
    const ChunkHandle chunk = rig.driver().create(gpu(0), 16 * MiB);
    rig.driver().map(begin + static_cast<std::uint64_t>(i) * 16 * MiB, 16 * MiB, chunk);
  }
  rig.grant_all(begin, 1 * GiB);
  EXPECT_NEAR(took([&] { rig.grant_all(begin, 1 * GiB); }), 2900, 300);
  EXPECT_NEAR(took([&] { rig.driver().unmap(begin, 1 * GiB); }), 2000, 300);
}

TEST_F(SimClockTest, HostMemoryIsSlowToMakeAndToMap) {
  Address begin{};
  ChunkHandle chunk{};
  EXPECT_NEAR(took([&] { chunk = rig.driver().create(host(0), 64 * MiB); }), 12'660, 100);
  begin = rig.driver().reserve(64 * MiB, 0);
  rig.driver().map(begin, 64 * MiB, chunk);
  EXPECT_NEAR(took([&] { rig.grant_all(begin, 64 * MiB); }), 1100, 100);
}

TEST_F(SimClockTest, ACopyIsNotDoneBeforeItsVirtualEnd) {
  const auto a = rig.allocate(gpu(0), 64 * MiB), b = rig.allocate(gpu(1), 64 * MiB);
  const EventHandle done = rig.new_event(0);
  const TimePoint before = now();
  rig.driver().copy(rig.stream(0), b.address, a.address, 64 * MiB);
  rig.driver().record(done, rig.stream(0));
  EXPECT_FALSE(rig.driver().query_event(done));
  int polls = 0;
  while (!rig.driver().query_event(done)) ++polls;
  EXPECT_NEAR(us(now() - before), 175, 6);
  EXPECT_GT(polls, 100) << "each costs half a microsecond";
  EXPECT_NEAR(took([&] { rig.finish(rig.stream(0)); }), 0.5, 0.2);
}

TEST_F(SimClockTest, ALongKernelTakesVirtualTimeOnly) {
  const auto real = std::chrono::steady_clock::now();
  const double waited = took([&] {
    rig.launch_spin(rig.stream(0), std::chrono::seconds(100));
    const double beside = took([&] { rig.give_back(rig.allocate(gpu(0), 2 * MiB)); });
    EXPECT_LT(beside, 3000) << "memory calls do not wait for kernels";
    EXPECT_FALSE(rig.driver().query_stream(rig.stream(0)));
    EXPECT_FALSE(rig.driver().wait_stream(rig.stream(0), now() + std::chrono::seconds(1)));
    rig.finish(rig.stream(0));
  });
  EXPECT_NEAR(waited, 100e6, 1e4);
  EXPECT_LT(std::chrono::steady_clock::now() - real, std::chrono::seconds(20));
}

TEST_F(SimClockTest, AWaitForBlockedWorkEndsInRealTimeAndMovesTheClock) {
  std::uint64_t* gate = rig.new_word();
  rig.batch_wait(rig.stream(0), gate, 1);
  const TimePoint deadline = now() + std::chrono::milliseconds(20);
  const auto real = std::chrono::steady_clock::now();
  EXPECT_FALSE(rig.driver().wait_stream(rig.stream(0), deadline));
  EXPECT_GE(std::chrono::steady_clock::now() - real, std::chrono::milliseconds(19));
  EXPECT_GE(now(), deadline);
  __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
  rig.finish(rig.stream(0));
}

TEST_F(SimClockTest, StreamsOverlapInVirtualTime) {
  const double both = took([&] {
    rig.launch_spin(rig.stream(0), std::chrono::milliseconds(10));
    rig.launch_spin(rig.stream(1), std::chrono::milliseconds(10));
    rig.finish(rig.stream(0));
    rig.finish(rig.stream(1));
  });
  EXPECT_LT(both, 11'500);
  EXPECT_GT(both, 10'000);
}

}  // namespace
}  // namespace vma
