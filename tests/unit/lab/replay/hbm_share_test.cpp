// Goal: the HBM that is a share of a trace's live bytes is right.
#include "lab/replay/replay_inputs.hpp"

#include "machine/machine_file.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace vma {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

TEST(HbmShare, IsThatPartOfThePeakInWholeChunks) {
  const TraceRoom room{1000 * mib, 0, 8 * mib};
  EXPECT_EQ(hbm_of_share(0.5, room, 32 * mib, 4), 128 * mib) << "125 MiB, in chunks of 8";
  EXPECT_EQ(hbm_of_share(0.5, room, 1 * mib, 4), 125 * mib);
  EXPECT_EQ(hbm_of_share(1, room, 1 * mib, 2), 500 * mib);
  EXPECT_EQ(hbm_of_share(2, room, 1 * mib, 1), 2000 * mib);
}

TEST(HbmShare, LeavesEachGpuRoomForAFewChunks) {
  const TraceRoom room{1000 * mib, 32 * mib, 8 * mib};
  EXPECT_EQ(hbm_of_share(0.1, room, 16 * mib, 4), 4 * 32 * mib);
  EXPECT_EQ(hbm_of_share(hbm_share_min, room, 1, 72), 4 * 32 * mib);
}

TEST(HbmShare, WhatNoNumberHoldsIsCutOff) {
  const TraceRoom room{~std::uint64_t{0}, 0, std::uint64_t{1} << 50};
  EXPECT_EQ(hbm_of_share(hbm_share_max, room, 32 * mib, 1), std::uint64_t{1000000000000000000});
  EXPECT_EQ(hbm_of_share(0.5, {}, 32 * mib, 1), 4u) << "nothing lives";
}

TEST(HbmShare, NoGpuGetsMoreThanItHasAndHostsStayAsTheyAre) {
  const ReplayMachine whole = replay_machine(load_machine("test-2"));
  ReplayMachine machine = whole;
  EXPECT_EQ(share_hbm(machine, 1, {80 * mib, 0, mib}, mib), 40 * mib);
  for (std::size_t i = 0; i < machine.places.size(); ++i) {
    const bool on_gpu = machine.places[i].place.kind == Place::Kind::gpu;
    EXPECT_EQ(machine.places[i].capacity_bytes, on_gpu ? 40 * mib : whole.places[i].capacity_bytes);
  }
  machine = whole;
  const std::uint64_t own = whole.places[0].capacity_bytes;
  EXPECT_EQ(share_hbm(machine, 64, {own, 0, mib}, mib), own);
  EXPECT_EQ(machine.places[1].capacity_bytes, whole.places[1].capacity_bytes);
}

}  // namespace
}  // namespace vma
