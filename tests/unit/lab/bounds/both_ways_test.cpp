// Goal: reads and writes over a GPU's NVLink get the right rates if both directions together carry
// less than each alone. Method: hand-computed cases with the rates of `TwoGpus`, where both
// directions together carry 600.

#include "lab/traffic/link_traffic.hpp"
#include "unit/lab/replay/two_gpus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

TwoGpus sharing(std::vector<double> both_ways, LinkKind kind = LinkKind::nvlink) {
  TwoGpus gpus(kind);
  gpus.peers.both_ways = std::move(both_ways);
  return gpus;
}

std::vector<std::string> names(const LinkMap& map) {
  std::vector<std::string> names;
  for (std::size_t link = 0; link < map.size(); ++link)
    names.push_back(map.name(static_cast<LinkId>(link)));
  return names;
}

class BothWays : public testing::Test {
 protected:
  FlowId begin(const LinkPath& path) { return traffic_.begin(path, 1200, Time::zero()); }

  const TwoGpus gpus_ = sharing({600, 600});
  const LinkMap map_{gpus_.peers, gpus_.costs};
  LinkTraffic traffic_{map_};
};

TEST_F(BothWays, AloneAnAccessGetsWhatTheCostsSay) {
  EXPECT_EQ(traffic_.rate(begin(map_.read(gpu_0, gpu_1))), 400);
}

TEST_F(BothWays, GpusThatReadEachOtherShareThem) {
  const FlowId one = begin(map_.read(gpu_0, gpu_1));
  const FlowId other = begin(map_.read(gpu_1, gpu_0));
  EXPECT_EQ(traffic_.rate(one), 300);
  EXPECT_EQ(traffic_.rate(other), 300);
  EXPECT_EQ(traffic_.end(one, std::chrono::seconds(4)), 0);
  EXPECT_EQ(traffic_.carried()[map_.size() - 2], 2400);  // In and out together.
  EXPECT_EQ(traffic_.rate(other), 400);
}

TEST_F(BothWays, WritesGoTheOtherWayAndShareThemToo) {
  const FlowId read = begin(map_.read(gpu_0, gpu_1));
  const FlowId write = begin(map_.write(gpu_0, gpu_1));
  EXPECT_EQ(traffic_.rate(read), 300);
  EXPECT_EQ(traffic_.rate(write), 300);
}

TEST_F(BothWays, AnAccessGoesOverThoseOfBothGpus) {
  for (const LinkPath& path : {map_.read(gpu_0, gpu_1), map_.write(gpu_0, gpu_1),
                               map_.read(gpu_1, gpu_0), map_.write(gpu_1, gpu_0)}) {
    for (const std::size_t both : {map_.size() - 2, map_.size() - 1})
      EXPECT_EQ(std::ranges::count(path.links(), static_cast<LinkId>(both)), 1);
  }
}

TEST_F(BothWays, CopiesShareThemToo) {
  const FlowId there = begin(map_.copy(gpu_0, gpu_1));
  EXPECT_EQ(traffic_.rate(there), 400);
  // When GPU 0 reads, the bytes come from GPU 1, opposite to the copy.
  const FlowId read = begin(map_.read(gpu_0, gpu_1));
  EXPECT_EQ(traffic_.rate(there), 300);
  EXPECT_EQ(traffic_.rate(read), 300);
  const FlowId back = begin(map_.copy(gpu_1, gpu_0)), other = begin(map_.read(gpu_1, gpu_0));
  for (const FlowId flow : {there, read, back, other}) EXPECT_EQ(traffic_.rate(flow), 150);
}

TEST_F(BothWays, WhatAGpuDoesWithoutItsPeersIsNoneOfThem) {
  begin(map_.read(gpu_0, gpu_1));
  begin(map_.read(gpu_1, gpu_0));
  EXPECT_EQ(traffic_.rate(begin(map_.read(gpu_0, host_0))), 50);
  EXPECT_EQ(traffic_.rate(begin(map_.read(gpu_1, gpu_1))), 3700);  // Minus what GPU 0 reads.
}

TEST(BothWaysOfAMap, AreLinksOnlyWhereTheyAreKnownToHoldSomebodyUp) {
  const TwoGpus none;
  const std::vector<std::string> without = names(LinkMap(none.peers, none.costs));
  for (const TwoGpus& gpus : {sharing({0, 0}), sharing({800, 795}), sharing({1e15, 1e15}),
                              sharing({60, 60}, LinkKind::pcie)})
    EXPECT_EQ(names(LinkMap(gpus.peers, gpus.costs)), without);
  const TwoGpus one = sharing({0, 600});
  std::vector<std::string> with = without;
  with.push_back("gpu(1) peers both ways");
  EXPECT_EQ(names(LinkMap(one.peers, one.costs)), with);
}

TEST(BothWaysOfAMap, AreNeverLessThanOneWayAlone) {
  const TwoGpus gpus = sharing({100, 100});
  const LinkMap map(gpus.peers, gpus.costs);
  LinkTraffic traffic(map);
  EXPECT_EQ(traffic.rate(traffic.begin(map.read(gpu_0, gpu_1), 1, Time::zero())), 400);
}

}  // namespace
}  // namespace vma
