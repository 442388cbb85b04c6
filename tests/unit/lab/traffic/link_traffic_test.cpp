// Goal: flows share links correctly. Method: hand-computed cases, and the definition of max-min
// fairness for random flows.

#include "lab/traffic/link_traffic.hpp"
#include "support/test_run.hpp"
#include "unit/lab/replay/two_gpus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LinkTrafficTest : public testing::Test {
 protected:
  explicit LinkTrafficTest(const std::vector<double>& both_ways = {}) : gpus_(both_ways) {}

  FlowId read(PlaceId device, PlaceId at, double bytes, Time now = Time::zero()) {
    return traffic_.begin(map_.read(device, at), bytes, now);
  }
  FlowId copy(PlaceId from, PlaceId to, double bytes, Time now = Time::zero()) {
    return traffic_.begin(map_.copy(from, to), bytes, now);
  }
  LinkId link(const std::string& name) const {
    LinkId number = 0;
    while (map_.name(number) != name) ++number;
    return number;
  }

  struct Gpus : TwoGpus {
    explicit Gpus(const std::vector<double>& both_ways) { peers.both_ways = both_ways; }
  };
  const Gpus gpus_;
  const LinkMap map_{gpus_.peers, gpus_.costs};
  LinkTraffic traffic_{map_};
};

TEST_F(LinkTrafficTest, AloneAFlowGetsWhatTheCostsSay) {
  const FlowId flow = read(gpu_0, host_0, 100);
  EXPECT_EQ(traffic_.rate(flow), 50);
  EXPECT_EQ(traffic_.next_end(), seconds(2));
  EXPECT_EQ(traffic_.end(flow, seconds(2)), 0);
  EXPECT_EQ(traffic_.next_end(), Time::max());
  EXPECT_EQ(traffic_.carried()[link("gpu(0) from host")], 100);
  EXPECT_EQ(traffic_.carried()[link("gpu(0) to host")], 0);
}

TEST_F(LinkTrafficTest, WhoeverIsHeldUpElsewhereLeavesTheRestToTheOthers) {
  const FlowId local = read(gpu_0, gpu_0, 1e6);
  const FlowId remote = read(gpu_1, gpu_0, 1e6);
  EXPECT_EQ(traffic_.rate(remote), 400);
  EXPECT_EQ(traffic_.rate(local), 3600);
  traffic_.end(remote, seconds(1));
  EXPECT_EQ(traffic_.rate(local), 4000);
}

TEST_F(LinkTrafficTest, EqualUsersOfALinkGetEqualShares) {
  const FlowId first = read(gpu_0, host_0, 100);
  const FlowId second = copy(host_0, gpu_0, 25);
  EXPECT_EQ(traffic_.rate(first), 25);
  EXPECT_EQ(traffic_.rate(second), 25);
  EXPECT_EQ(traffic_.next(), second);
  EXPECT_EQ(traffic_.next_end(), seconds(1));
  traffic_.end(second, seconds(1));
  // 75 bytes of the first flow remain, and it has the link to itself.
  EXPECT_EQ(traffic_.next_end(), milliseconds(2500));
  EXPECT_EQ(traffic_.end(first, seconds(2)), 25);
}

TEST_F(LinkTrafficTest, TheTwoWaysOfALinkAreApart) {
  const FlowId out = copy(gpu_0, host_0, 100);
  const FlowId in = copy(host_0, gpu_0, 100);
  EXPECT_EQ(traffic_.rate(out), 50);
  EXPECT_EQ(traffic_.rate(in), 50);
}

// Copies to the host at 30 and from it at 50: a write gets 30 of 50. Where the way back is the
// slower one, nothing says that writes are faster than reads.
TEST_F(LinkTrafficTest, WritesToAHostAreAsMuchSlowerAsCopiesThere) {
  TwoGpus uneven;
  uneven.costs.copy_rate(gpu_0, host_0) = 30;
  uneven.costs.copy_rate(host_0, gpu_1) = 30;
  const LinkMap map(uneven.peers, uneven.costs);
  EXPECT_DOUBLE_EQ(map.write(gpu_0, host_0).rate_max, 30);
  EXPECT_DOUBLE_EQ(map.read(gpu_0, host_0).rate_max, 50);
  EXPECT_DOUBLE_EQ(map.write(gpu_1, host_0).rate_max, 50);
  EXPECT_DOUBLE_EQ(map.write(gpu_0, gpu_1).rate_max, 400);
}

// Each GPU reads its own host at 50 and the other one at 20: two users of the way there get 10
// each, and leave 30 of what its link to the hosts carries to whoever reads the near one.
TEST_F(LinkTrafficTest, FarHostsAreBehindOneMoreLink) {
  const TwoGpus uniform;
  const PlaceId host_1{3};
  MachineCosts costs(2, 4);
  for (const PlaceId gpu : {gpu_0, gpu_1}) {
    costs.access_rate(gpu, gpu) = 4000;
    for (const PlaceId host : {host_0, host_1}) {
      const double rate = (gpu == gpu_0) == (host == host_0) ? 50 : 20;
      costs.access_rate(gpu, host) = costs.copy_rate(gpu, host) = costs.copy_rate(host, gpu) = rate;
    }
  }
  const LinkMap map(uniform.peers, costs);
  EXPECT_EQ(map.size(), map_.size() + 4);
  LinkTraffic traffic(map);
  const FlowId one = traffic.begin(map.read(gpu_0, host_1), 100, Time(0));
  const FlowId copied = traffic.begin(map.copy(host_1, gpu_0), 100, Time(0));
  const FlowId near = traffic.begin(map.read(gpu_0, host_0), 100, Time(0));
  const FlowId written = traffic.begin(map.write(gpu_0, host_1), 100, Time(0));
  EXPECT_DOUBLE_EQ(traffic.rate(one), 10);
  EXPECT_DOUBLE_EQ(traffic.rate(copied), 10);
  EXPECT_DOUBLE_EQ(traffic.rate(near), 30);
  EXPECT_DOUBLE_EQ(traffic.rate(written), 20);
}

TEST_F(LinkTrafficTest, PeersByPcieShareTheirWaysToTheHost) {
  const TwoGpus pcie(LinkKind::pcie);
  const LinkMap map(pcie.peers, pcie.costs);
  LinkTraffic traffic(map);
  const FlowId peer = traffic.begin(map.copy(gpu_0, gpu_1), 1e6, Time::zero());
  EXPECT_EQ(traffic.rate(peer), 40);
  const FlowId host = traffic.begin(map.copy(host_0, gpu_1), 1e6, Time::zero());
  EXPECT_EQ(traffic.rate(peer), 25);
  EXPECT_EQ(traffic.rate(host), 25);
}

TEST_F(LinkTrafficTest, WithoutAWayThereIsNoPathToTake) {
  TwoGpus none(LinkKind::none);
  none.costs.access_rate(gpu_0, gpu_1) = 0;
  const LinkMap map(none.peers, none.costs);
  EXPECT_EQ(map.read(gpu_0, gpu_1).rate_max, 0);
}

/// With independent directions, and with directions that share a limit.
class AnyFlows : public LinkTrafficTest, public testing::WithParamInterface<double> {
 protected:
  AnyFlows() : LinkTrafficTest({GetParam(), GetParam()}) {}
};

INSTANTIATE_TEST_SUITE_P(BothWays, AnyFlows, testing::Values(0, 600));

/// Max-min fair: no link exceeds its capacity, and every flow below its own maximum uses a full
/// link on which no flow gets more.
void expect_fair(const LinkMap& map, LinkTraffic& traffic,
                 const std::map<FlowId, const LinkPath*>& flows) {
  constexpr double slack = 1e-6;
  std::vector<double> used(map.size()), most(map.size());
  for (const auto& [flow, path] : flows) {
    for (const LinkId link : path->links()) {
      used[link] += traffic.rate(flow);
      most[link] = std::max(most[link], traffic.rate(flow));
    }
  }
  for (std::size_t link = 0; link < map.size(); ++link)
    ASSERT_LE(used[link], map.capacity(static_cast<LinkId>(link)) * (1 + slack));
  for (const auto& [flow, path] : flows) {
    const double rate = traffic.rate(flow);
    ASSERT_LE(rate, path->rate_max * (1 + slack));
    const bool held = std::ranges::any_of(path->links(), [&](LinkId link) {
      return used[link] >= map.capacity(link) * (1 - slack) && rate >= most[link] * (1 - slack);
    });
    ASSERT_TRUE(held || rate >= path->rate_max * (1 - slack));
  }
}

TEST_P(AnyFlows, ShareMaxMinFairlyAndLoseNoByte) {
  std::mt19937_64 random(run_seed());
  std::map<FlowId, const LinkPath*> flows;
  std::vector<double> asked(map_.size()), left(map_.size());
  Time now{0};
  for (int step = 0; step < 3000; ++step) {
    if (flows.size() < 12 && random() % 2 == 0) {
      const PlaceId one{static_cast<std::uint8_t>(random() % 3)};
      const PlaceId other{static_cast<std::uint8_t>(random() % 3)};
      const bool reads = one != host_0 && random() % 2 == 0;
      if (!reads && one == other) continue;
      const LinkPath& path = reads ? map_.read(one, other) : map_.copy(one, other);
      const double bytes = static_cast<double>(random() % 5000);
      flows.emplace(traffic_.begin(path, bytes, now), &path);
      for (const LinkId link : path.links()) asked[link] += bytes;
    } else if (!flows.empty()) {
      const bool early = random() % 4 == 0;
      const FlowId flow = early ? flows.begin()->first : traffic_.next();
      if (!early) now = traffic_.next_end();
      const double bytes = traffic_.end(flow, now);
      if (!early) {
        ASSERT_LT(bytes, 1e-3);
      }
      for (const LinkId link : flows.at(flow)->links()) left[link] += bytes;
      flows.erase(flow);
    }
    expect_fair(map_, traffic_, flows);
    if (HasFatalFailure()) return;
  }
  for (const auto& [flow, path] : std::map(flows)) {
    const double bytes = traffic_.end(flow, now);
    for (const LinkId link : path->links()) left[link] += bytes;
  }
  for (std::size_t link = 0; link < map_.size(); ++link) {
    EXPECT_NEAR(traffic_.carried()[link] + left[link], asked[link], 1e-6 * asked[link] + 1);
  }
}

// One of them begins and ends flows one by one, the other many at once.
TEST_P(AnyFlows, OfWhichSeveralBeginAtOnceGetTheSameRatesAsOneAfterTheOther) {
  std::mt19937_64 random(run_seed());
  LinkTraffic at_once(map_);
  std::vector<std::pair<FlowId, FlowId>> flows;  // In `one` and in `other`.
  Time now{0};
  for (int step = 0; step < 300; ++step) {
    now += std::chrono::microseconds(random() % 1000);
    std::vector<LinkTraffic::NewFlow> begun(random() % 12);
    for (LinkTraffic::NewFlow& flow : begun) {
      const PlaceId device{static_cast<std::uint8_t>(random() % 2)};
      const PlaceId at{static_cast<std::uint8_t>(random() % 3)};
      flow.path = random() % 2 == 0 ? &map_.read(device, at) : &map_.write(device, at);
      flow.bytes = static_cast<double>(random() % 5000);
      if (random() % 2 == 0) flow.rate_max = static_cast<double>(1 + random() % 1000) / 7;
    }
    const std::span<const FlowId> begun_at_once = at_once.begin(begun, now);
    for (std::size_t i = 0; i < begun.size(); ++i) {
      flows.emplace_back(traffic_.begin(*begun[i].path, begun[i].bytes, now, begun[i].rate_max),
                         begun_at_once[i]);
    }
    for (const auto& [one, other] : flows) ASSERT_EQ(traffic_.rate(one), at_once.rate(other));
    ASSERT_EQ(traffic_.next_end(), at_once.next_end());
    now += std::chrono::microseconds(random() % 1000);
    std::ranges::shuffle(flows, random);
    std::vector<FlowId> ended;
    std::vector<double> left;
    for (std::size_t some = random() % (flows.size() + 1); some > 0; --some) {
      left.push_back(traffic_.end(flows.back().first, now));
      ended.push_back(flows.back().second);
      flows.pop_back();
    }
    ASSERT_TRUE(std::ranges::equal(at_once.end(ended, now), left));
    for (const auto& [one, other] : flows) ASSERT_EQ(traffic_.rate(one), at_once.rate(other));
    ASSERT_EQ(traffic_.next_end(), at_once.next_end());
  }
  for (std::size_t link = 0; link < map_.size(); ++link)
    EXPECT_EQ(traffic_.carried()[link], at_once.carried()[link]);
}

// One is asked for rates after each begin and end and computes them each time; the other computes
// them once, when it is asked at the end. Only the rounding of sums may differ.
TEST_P(AnyFlows, OfOneTimeGetTheSameRatesWhoeverAsksInBetween) {
  std::mt19937_64 random(run_seed());
  LinkTraffic at_last(map_);
  std::vector<std::pair<FlowId, FlowId>> flows;  // In the one that is asked, and in the other.
  Time now{0};
  for (int step = 0; step < 1000; ++step) {
    now += std::chrono::microseconds(random() % 1000);
    for (std::size_t change = random() % 8; change > 0; --change) {
      if (flows.size() < 12 && random() % 2 == 0) {
        const PlaceId device{static_cast<std::uint8_t>(random() % 2)};
        const PlaceId at{static_cast<std::uint8_t>(random() % 3)};
        const LinkPath& path = random() % 2 == 0 ? map_.read(device, at) : map_.write(device, at);
        const double bytes = static_cast<double>(random() % 5000);
        const double most = static_cast<double>(1 + random() % 4000) / 7;
        flows.emplace_back(traffic_.begin(path, bytes, now, most),
                           at_last.begin(path, bytes, now, most));
      } else if (!flows.empty()) {
        std::swap(flows[random() % flows.size()], flows.back());
        const auto [one, other] = flows.back();
        flows.pop_back();
        const double left = traffic_.end(one, now);
        ASSERT_NEAR(at_last.end(other, now), left, 1e-9 * left + 1e-9);
      }
      for (const auto& [one, other] : flows) traffic_.rate(one);
    }
    for (const auto& [one, other] : flows)
      ASSERT_NEAR(at_last.rate(other), traffic_.rate(one), 1e-9 * traffic_.rate(one));
  }
}

TEST_F(LinkTrafficTest, PausedFlowsKeepTheirBytesAndLeaveTheirShareToTheOthers) {
  const LinkTraffic::NewFlow pausing{
      .path = &map_.read(gpu_0, host_0), .bytes = 100, .pauses = true};
  const FlowId read = traffic_.begin({&pausing, 1}, Time::zero()).front();
  const FlowId copied = copy(host_0, gpu_0, 100);
  traffic_.pause(seconds(1));  // Each has 75 of 100 bytes left.
  EXPECT_EQ(traffic_.rate(read), 0);
  EXPECT_EQ(traffic_.rate(copied), 50);
  EXPECT_EQ(traffic_.next(), copied);
  EXPECT_EQ(traffic_.next_end(), milliseconds(2500));
  traffic_.end(copied, milliseconds(2500));
  EXPECT_EQ(traffic_.next_end(), Time::max());
  EXPECT_EQ(traffic_.carried()[link("gpu(0) from host")], 125);
  traffic_.resume(seconds(10));
  EXPECT_EQ(traffic_.rate(read), 50);
  EXPECT_EQ(traffic_.next_end(), milliseconds(11'500));
  EXPECT_EQ(traffic_.end(read, seconds(11)), 25);
}

TEST_F(LinkTrafficTest, WhatEndsAtAPauseEndsAfterIt) {
  const LinkTraffic::NewFlow pausing{
      .path = &map_.read(gpu_0, host_0), .bytes = 100, .pauses = true};
  const FlowId read = traffic_.begin({&pausing, 1}, Time::zero()).front();
  EXPECT_EQ(traffic_.next(), read);
  traffic_.pause(seconds(2));
  EXPECT_EQ(traffic_.next_end(), Time::max());
  traffic_.resume(seconds(3));
  EXPECT_EQ(traffic_.next(), read);
  EXPECT_EQ(traffic_.next_end(), seconds(3));
  EXPECT_EQ(traffic_.end(read, seconds(3)), 0);
}

// Ends are reported before the rates of the remaining flows are computed.
TEST_F(LinkTrafficTest, SeveralThatEndAtOneTimeEndInTheOrderOfTheirBeginning) {
  const FlowId first = read(gpu_0, host_0, 200);
  const FlowId second = read(gpu_1, gpu_0, 1600), third = read(gpu_1, host_0, 200);
  EXPECT_EQ(traffic_.next_end(), seconds(4));
  EXPECT_EQ(traffic_.next(), first);
  traffic_.end(first, seconds(4));
  EXPECT_EQ(traffic_.next_end(), seconds(4));
  EXPECT_EQ(traffic_.next(), second);
  traffic_.end(second, seconds(4));
  read(gpu_0, host_0, 50, seconds(4));
  EXPECT_EQ(traffic_.next(), third);
  traffic_.end(third, seconds(4));
  EXPECT_EQ(traffic_.next_end(), seconds(5));
}

}  // namespace
}  // namespace vma
