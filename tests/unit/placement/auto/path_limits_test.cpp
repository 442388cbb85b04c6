// Goal: savings count only where a path holds a GPU up. Method: uses by hand on machines like
// H200s, where a GPU reads at 390 GB/s from a peer and at 52 GB/s from the host; the limit is 0.7.
#include "placement/auto/path_limits.hpp"

#include "placement/books/chunk_tables.hpp"
#include "unit/placement/policies/policy_rig.hpp"

#include <gtest/gtest.h>

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

class PathLimitsTest : public testing::Test {
 protected:
  /// In each window of 20 ms, `user` reads at this rate on average what lies at `at`.
  void read(PlaceId user, PlaceId at, double bytes_s) {
    limits_.note({ChunkId{0}, user, bytes_s * 20e-3, 0}, at, Snapshot(books_));
  }
  void advance(Time time) { books_.set_now(books_.now() + time); }
  /// Ends the window.
  void settle() {
    advance(20ms);
    read(d_, d_, 0);  // Windows end when there is news.
  }

  const PlaceId a_ = gpu_place(0), b_ = gpu_place(1), c_ = gpu_place(2), d_ = gpu_place(3),
                host_ = gpu_place(4);
  const PolicyMachine machine_ = PolicyMachine::h200(4, 1 << 30, 1 << 30);
  ChunkTables books_{machine_.places(), machine_.costs};
  PathLimits limits_{0.7};
};

TEST_F(PathLimitsTest, EverythingCountsWhileNothingIsKnown) {
  EXPECT_EQ(limits_.share(a_, host_), 1);
  read(a_, b_, 1e9);
  EXPECT_EQ(limits_.share(a_, host_), 1) << "the window has not ended";
}

// 117 GB/s are 0.3 of what a peer gives; half of the limit is 0.35.
TEST_F(PathLimitsTest, APathThatCarriesTheDemandHoldsNobodyUp) {
  read(a_, b_, 117e9);
  settle();
  EXPECT_NEAR(limits_.load(a_, b_), 0.3, 1e-9);
  EXPECT_EQ(limits_.share(a_, b_), 0);
  EXPECT_EQ(limits_.share(a_, a_), 0);
  EXPECT_EQ(limits_.share(a_, host_), 0) << "nothing takes that path";
}

// 117 GB/s are more than twice what the host gives, and another 117 are 0.3 of a peer's path.
TEST_F(PathLimitsTest, WhatWouldComeOnTopCounts) {
  read(a_, b_, 117e9);
  settle();
  EXPECT_EQ(limits_.share(a_, host_, 117e9), 1);
  EXPECT_NEAR(limits_.load(a_, b_, 117e9), 0.6, 1e-9);
}

// Between half of the limit and the limit: 0.525 of 0.7 are three quarters, so half counts.
TEST_F(PathLimitsTest, BetweenThemAPartCounts) {
  read(a_, b_, 0.525 * 390e9);
  settle();
  EXPECT_NEAR(limits_.share(a_, b_), 0.5, 1e-9);
}

// A GPU that reads from the host as fast as it can asks for no more than the host gives.
TEST_F(PathLimitsTest, ReadingAtTheRateOfThePathIsHeldUp) {
  for (int i = 0; i < 50; ++i) {
    read(a_, host_, 52e9);
    settle();
  }
  EXPECT_EQ(limits_.share(a_, host_), 1);
}

// A tenth of the time at 52 GB/s, not all of it at 5.2.
TEST_F(PathLimitsTest, ABurstHasItsOwnRate) {
  for (int i = 0; i < 50; ++i) {
    read(a_, host_, 52e9);
    settle();
    advance(180ms);
  }
  EXPECT_NEAR(limits_.load(a_, host_), 1, 1e-9);
}

// Loads of 0.8 and, a second later, of 0.4: the seconds of the older half count half.
TEST_F(PathLimitsTest, ForgetsByHalvesInASecond) {
  read(a_, b_, 0.8 * 390e9);
  settle();
  advance(980ms);
  read(a_, b_, 0.4 * 390e9);
  settle();
  // (0.5 x 0.8 x 0.8 + 0.4 x 0.4) / (0.5 x 0.8 + 0.4) = 0.6.
  EXPECT_NEAR(limits_.load(a_, b_), 0.6, 1e-9);
}

// A GPU reads from its peers over one path: 0.3 and 0.3. B is loaded by two readers too.
TEST_F(PathLimitsTest, PeersAndReadersAddUp) {
  read(a_, b_, 117e9);
  read(a_, c_, 117e9);
  read(d_, b_, 117e9);
  settle();
  EXPECT_NEAR(limits_.load(a_, d_), 0.6, 1e-9);
  EXPECT_NEAR(limits_.load(d_, c_), 0.3, 1e-9);
  EXPECT_NEAR(limits_.load(d_, b_), 0.6, 1e-9);
  EXPECT_NEAR(limits_.load(b_, b_), 0, 1e-9);
}

// By PCIe, a GPU reads from a peer at 40 GB/s over the path on which it reads at 52 from the host.
TEST(PathLimitsByPcie, PeersAndTheHostShareAPath) {
  PolicyMachine machine = PolicyMachine::h200(2, 1 << 30, 1 << 30);
  const PlaceId a = gpu_place(0), b = gpu_place(1), host = gpu_place(2);
  machine.costs.access_rate(a, b) = 40e9;
  ChunkTables books(machine.places(), machine.costs);
  PathLimits limits(0.7);
  limits.note({ChunkId{0}, a, 0.2 * 40e9 * 20e-3, 0}, b, Snapshot(books));
  limits.note({ChunkId{0}, a, 0.3 * 52e9 * 20e-3, 0}, host, Snapshot(books));
  books.set_now(20ms);
  limits.note({ChunkId{0}, a, 0, 0}, a, Snapshot(books));
  EXPECT_NEAR(limits.load(a, b), 0.5, 1e-9);
  EXPECT_NEAR(limits.load(a, host), 0.5, 1e-9);
}

TEST_F(PathLimitsTest, WithoutALimitEverythingCounts) {
  limits_ = PathLimits(0);
  read(a_, b_, 1e6);
  settle();
  EXPECT_EQ(limits_.share(a_, b_), 1);
}

}  // namespace
}  // namespace v1
}  // namespace vma
