// Goal: for any policy and trace, no access is lost, no place exceeds its capacity, books and links
// agree, metrics are within their bounds, and equal inputs give equal reports.

#include "lab/replay/replay_metrics.hpp"
#include "support/test_run.hpp"
#include "unit/lab/replay/replay_rig.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace vma {
namespace {

/// Forwards to another policy and checks the books each time.
class LookingPolicy : public Policy {
 public:
  explicit LookingPolicy(std::unique_ptr<Policy> policy) : policy_(std::move(policy)) {}
  void on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                std::span<PlaceId> chunks) override {
    look(snapshot);
    policy_->on_alloc(request, snapshot, chunks);
  }
  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override {
    policy_->on_use(use, snapshot, plan);
  }
  void on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) override {
    look(snapshot);
    policy_->on_pressure(pressure, snapshot, plan);
  }
  void on_tick(const Snapshot& snapshot, Plan& plan) override {
    look(snapshot);
    policy_->on_tick(snapshot, plan);
  }
  void on_result(const MoveResult& result, const Snapshot& snapshot) override {
    policy_->on_result(result, snapshot);
  }
  void on_gone(ChunkId chunk) override { policy_->on_gone(chunk); }

 private:
  static void look(const Snapshot& snapshot) {
    for (const PlaceState& place : snapshot.places())
      ASSERT_LE(place.used_bytes, place.capacity_bytes) << to_string(place.place);
  }
  const std::unique_ptr<Policy> policy_;
};

/// Objects that come and go and are used with a distribution like Zipf's, some with a given device.
struct AnyTrace {
  explicit AnyTrace(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t limit) { return random() % limit; };
    const auto place = [&](std::uint64_t places) {
      const std::uint64_t which = below(places);
      return which == 0 ? TracePlace()
                        : TracePlace(which < 3 ? gpu(static_cast<int>(which) - 1) : host(0));
    };
    std::map<std::uint64_t, std::uint64_t> live;
    std::set<std::uint64_t> placed;
    Time now{0};
    for (std::uint64_t i = 0; i < 600; ++i) {
      now += std::chrono::microseconds(below(40'000));
      const std::uint64_t dice = below(20);
      if (live.size() < 3 || (dice == 0 && live.size() < 12)) {
        const std::uint64_t bytes = 1 + below(500);
        trace.alloc(now, i, bytes, place(4), "tag" + std::to_string(below(3)));
        if (below(3) == 0) trace.last().chunk_bytes = 1 + below(200);
        live[i] = bytes;
        if (trace.last().at.is_set()) placed.insert(i);
      } else if (dice == 1) {
        const auto which = std::next(live.begin(), static_cast<std::ptrdiff_t>(below(live.size())));
        trace.free(now, which->first);
        placed.erase(which->first);
        live.erase(which);
      } else {
        const auto which =
            std::next(live.begin(), static_cast<std::ptrdiff_t>(below(1 + below(live.size()))));
        const std::uint64_t offset = below(which->second);
        const std::uint64_t bytes = 1 + below(which->second - offset);
        trace.access(now, which->first, bytes, place(3), offset);
        trace.last().task = static_cast<std::uint32_t>(below(5));
        trace.last().use = static_cast<UseKind>(below(3));
        if (below(4) == 0) trace.last().duration = std::chrono::microseconds(below(30'000));
        all_bytes += static_cast<double>(bytes) * (trace.last().use == UseKind::read_write ? 2 : 1);
        ++accesses;
        placed.insert(which->first);
      }
    }
    for (const std::uint64_t object : placed) used_bytes += live.at(object);
  }

  ListedTrace trace;
  double all_bytes = 0;
  std::uint64_t accesses = 0;
  std::uint64_t used_bytes = 0;  // Of objects that are used or placed and never freed.
};

class ReplayProperty : public testing::TestWithParam<std::string> {
 protected:
  ReplayReport run(std::uint64_t seed, AnyTrace& any) {
    rig = ReplayRig();
    rig.hbm_bytes = 900;
    rig.host_bytes = 20'000;
    rig.router = router_names()[seed % router_names().size()];
    rig.options.pacing = seed % 3 == 0 ? Pacing::at_once : Pacing::timed;
    rig.options.queue_max = 1 + seed % 5;
    rig.options.scheduler.planner.least_residence = std::chrono::milliseconds(50);
    for (const PlaceId from : {gpu_0, gpu_1, host_0}) {
      for (const PlaceId to : {gpu_0, gpu_1, host_0}) {
        rig.gpus.costs.move_fixed(from, to) = std::chrono::milliseconds(2);
        rig.gpus.costs.stall_fixed(from, to) = std::chrono::milliseconds(1);
      }
    }
    return rig.run(any.trace, std::make_unique<LookingPolicy>(lab_policies().make(GetParam())));
  }

  ReplayRig rig;  // Of the last run.
};

TEST_P(ReplayProperty, LosesNothingFillsNoPlaceAndIsTheSameEachTime) {
  std::uint64_t moves = 0;
  for (std::uint64_t seed = run_seed(); seed < run_seed() + sampled(12); ++seed) {
    AnyTrace any(seed);
    const ReplayReport report = run(seed, any);
    ASSERT_EQ(report.allocations_lost, 0u) << "seed " << seed;
    ASSERT_EQ(report.accesses, any.accesses) << "seed " << seed;
    ASSERT_EQ(report.policy_failures, 0u) << "seed " << seed;
    EXPECT_NEAR(report.bytes, any.all_bytes, 1e-3);
    double by_place = 0, by_tenant = 0, by_device = 0, by_window = 0;
    for (const auto& [place, bytes] : report.bytes_by_place) by_place += bytes;
    for (const auto& [tag, tenant] : report.tenants) by_tenant += tenant.bytes;
    for (const ReplayDevice& device : report.devices) by_device += device.bytes;
    for (const ReplayWindow& window : report.windows) by_window += window.bytes;
    for (const double sum : {by_place, by_tenant, by_device, by_window})
      EXPECT_NEAR(sum, any.all_bytes, 1e-3);
    EXPECT_GE(report.access_s, report.local_s * (1 - 1e-6));
    moves += report.moves;
    AnyTrace again(seed);
    ASSERT_TRUE(run(seed, again) == report) << "seed " << seed;
  }
  RecordProperty("moves", static_cast<int>(moves));
}

TEST_P(ReplayProperty, WindowsSayWhereAllThatLivesLies) {
  for (std::uint64_t seed = run_seed(); seed < run_seed() + sampled(6); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    AnyTrace any(seed);
    const ReplayReport report = run(seed, any);
    const std::vector<PlaceState> places = rig.machine().places;
    for (const ReplayWindow& window : report.windows) {
      ASSERT_EQ(window.resident.size(), places.size());
      for (std::size_t at = 0; at < places.size(); ++at)
        ASSERT_LE(window.resident[at], places[at].capacity_bytes);
    }
    const std::vector<std::uint64_t>& last = report.windows.back().resident;
    const auto sum = std::accumulate(last.begin(), last.end(), std::uint64_t{0});
    EXPECT_GE(sum, any.used_bytes);  // A freed object stays while one of its chunks moves.
  }
}

TEST_P(ReplayProperty, MetricsAreInTheirBounds) {
  for (std::uint64_t seed = run_seed(); seed < run_seed() + sampled(6); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    AnyTrace any(seed);
    const ReplayReport report = run(seed, any);
    const ReplayMetrics metrics = metrics_of(report, rig.machine());
    const double shares =
        metrics.own_share.value() + metrics.peer_share.value() + metrics.host_share.value();
    EXPECT_NEAR(shares, 1, 1e-9);
    EXPECT_GT(metrics.link_use_max, 0);
    EXPECT_LE(metrics.link_use_max, 1 + 1e-9);
    EXPECT_GE(metrics.fairness_tenants.value(), 1.0 / 3 - 1e-9);
    EXPECT_LE(metrics.fairness_tenants.value(), 1 + 1e-9);
    EXPECT_GE(metrics.fairness_devices.value(), 0.5 - 1e-9);
    EXPECT_LE(metrics.fairness_devices.value(), 1 + 1e-9);
    EXPECT_EQ(metrics.move_s > 0, report.moves > 0);
    EXPECT_GE(metrics.move_s, metrics.stall_s);
    EXPECT_NEAR(report.move_stall_s, 1e-3 * static_cast<double>(report.moves), 1e-9);
    EXPECT_LE(metrics.paused_s, metrics.access_s - metrics.local_s + 1e-9 * metrics.access_s);
    EXPECT_GE(metrics.cost_s, metrics.access_s - metrics.paused_s + metrics.wait_s);
    EXPECT_GE(metrics.device_share_max.value(), 0.5);
    EXPECT_LE(metrics.device_share_max.value(), 1);
    double devices_s = 0;
    for (const ReplayDevice& device : report.devices) devices_s += device.local_s;
    EXPECT_NEAR(devices_s, report.local_s, 1e-9 * report.local_s);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, ReplayProperty, testing::ValuesIn(policy_names()),
                         [](const auto& policy) { return policy.param; });

}  // namespace
}  // namespace vma
