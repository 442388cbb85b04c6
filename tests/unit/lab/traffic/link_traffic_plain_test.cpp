// Goal: `LinkTraffic` gives every flow the rate, and ends it at the time, that the definition of
// max-min fairness says. Method: random flows on random machines, beside `PlainTraffic`.

#include "lab/traffic/link_traffic.hpp"
#include "support/test_run.hpp"
#include "unit/lab/traffic/plain_traffic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace vma {
namespace {

constexpr double relative = 1e-9;

PlaceId any_place(std::mt19937_64& random, std::size_t places) {
  return PlaceId{static_cast<std::uint8_t>(random() % places)};
}

/// The rates are drawn from a few values, so that many are equal, or from many.
LinkMap any_map(std::mt19937_64& random, std::size_t gpus, std::size_t places) {
  const bool few = random() % 2 == 0;
  const auto rate = [&](double scale) {
    return scale * static_cast<double>(few ? 1 + random() % 3 : 1 + random() % 1000) *
           (few ? 100 : 1 / 3.0);
  };
  MachineCosts costs(gpus, places);
  PeerLinks peers;
  peers.kinds.assign(gpus, std::vector(gpus, random() % 2 ? LinkKind::nvlink : LinkKind::pcie));
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) peers.kinds[gpu][gpu] = LinkKind::same;
  if (random() % 2 == 0) peers.both_ways.assign(gpus, rate(15));
  for (std::size_t one = 0; one < places; ++one) {
    for (std::size_t other = 0; other < places; ++other) {
      const PlaceId from{static_cast<std::uint8_t>(one)}, to{static_cast<std::uint8_t>(other)};
      const double scale = one == other ? 100 : std::max(one, other) < gpus ? 10 : 1;
      if (one < gpus) costs.access_rate(from, to) = rate(scale);
      if (one != other) costs.copy_rate(from, to) = rate(scale);
    }
  }
  costs.rank();
  return LinkMap(peers, costs);
}

/// Both, with the same flows.
class Twins {
 public:
  Twins(std::mt19937_64& random, std::size_t gpus, std::size_t places, const LinkMap& map)
      : random_(random), gpus_(gpus), places_(places), map_(map), fast_(map), plain_(map) {}

  void step(std::size_t flows_max) {
    if (random_() % 3 == 0) {
      const Time later = now_ + Time(static_cast<Time::rep>(random_() % 2'000'000'000));
      // Rarely, time passes several ends at once.
      now_ = random_() % 16 == 0 ? later : std::min(later, std::max(fast_.next_end(), now_));
    }
    const std::uint64_t what = random_() % 16;
    if (what == 0) {
      pause_or_resume();
    } else if (flows_.size() < flows_max && what < 9) {
      begin();
    } else if (!flows_.empty()) {
      end(what < 11);
    }
    if (testing::Test::HasFatalFailure()) return;
    if (random_() % 2 == 0) compare();  // Rates that nobody asks for are computed later.
  }

 private:
  struct Pair {
    FlowId fast{};
    std::size_t plain = 0;
  };

  void pause_or_resume() {
    paused_ = !paused_;
    paused_ ? fast_.pause(now_) : fast_.resume(now_);
    paused_ ? plain_.pause(now_) : plain_.resume(now_);
  }

  void begin() {
    LinkTraffic::NewFlow flow;
    const PlaceId device = any_place(random_, gpus_), at = any_place(random_, places_);
    const PlaceId other = any_place(random_, places_);
    flow.path = random_() % 3 == 0 && at != other ? &map_.copy(at, other)
                : random_() % 2 == 0              ? &map_.read(device, at)
                                                  : &map_.write(device, at);
    flow.bytes = static_cast<double>(random_() % 8 == 0 ? 0 : random_() % 100'000);
    flow.pauses = random_() % 2 == 0;
    if (random_() % 4 != 0)
      flow.rate_max = flow.path->rate_max * static_cast<double>(1 + random_() % 16) / 16;
    if (random_() % 4 == 0) flow.rate_max = static_cast<double>(1 + random_() % 10'000) / 7;
    flows_.push_back({fast_.begin({&flow, 1}, now_).front(), plain_.begin(flow, now_)});
  }

  void end(bool early) {
    std::size_t which = random_() % flows_.size();
    if (!early) {
      if (fast_.next_end() == Time::max()) return;
      now_ = std::max(now_, fast_.next_end());
      const FlowId next = fast_.next();
      which =
          static_cast<std::size_t>(std::ranges::find(flows_, next, &Pair::fast) - flows_.begin());
      ASSERT_LT(which, flows_.size());
    }
    const Pair pair = flows_[which];
    const double rate = plain_.rate(pair.plain);
    const double left = fast_.end(pair.fast, now_), should = plain_.end(pair.plain, now_);
    // The clock has steps of a nanosecond, and each change of a rate may round once.
    ASSERT_NEAR(left, should, relative * (should + 100 * rate) + 1e-6);
    if (!early) {
      ASSERT_EQ(left, 0);
    }
    flows_.erase(flows_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void compare() {
    ASSERT_EQ(fast_.size(), flows_.size());
    const double seconds = std::max(plain_.seconds_to_end(now_), 0.0);
    for (const Pair& pair : flows_) {
      const double rate = plain_.rate(pair.plain);
      ASSERT_NEAR(fast_.rate(pair.fast), rate, relative * rate);
    }
    if (std::isinf(seconds)) {
      ASSERT_EQ(fast_.next_end(), Time::max());
    } else {
      const double fast = std::chrono::duration<double>(fast_.next_end() - now_).count();
      ASSERT_NEAR(fast, seconds, relative * (seconds + 10) + 1e-9);
    }
    fast_.end(fast_.begin(map_.read(PlaceId{0}, PlaceId{0}), 0, now_), now_);  // Up to `now_`.
    for (LinkId link = 0; link < map_.size(); ++link) {
      const double should = plain_.carried(link);
      ASSERT_NEAR(fast_.carried()[link], should, relative * (should + 100 * map_.capacity(link)));
    }
  }

  std::mt19937_64& random_;
  const std::size_t gpus_, places_;
  const LinkMap& map_;
  LinkTraffic fast_;
  PlainTraffic plain_;
  std::vector<Pair> flows_;
  bool paused_ = false;
  Time now_{0};
};

struct Instances {
  int count;
  int steps;
  std::size_t flows_max;
};

class PlainTrafficTest : public testing::TestWithParam<Instances> {};

INSTANTIATE_TEST_SUITE_P(Sizes, PlainTrafficTest,
                         testing::Values(Instances{3000, 60, 6}, Instances{500, 200, 24},
                                         Instances{8, 1500, 200}));

TEST_P(PlainTrafficTest, AgreesOnRatesEndsAndCarriedBytes) {
  std::mt19937_64 random(run_seed());
  for (int instance = 0; instance < sampled(GetParam().count); ++instance) {
    SCOPED_TRACE(instance);
    const std::size_t gpus = 1 + random() % 5, places = gpus + random() % 3;
    const LinkMap map = any_map(random, gpus, places);
    Twins twins(random, gpus, places, map);
    for (int step = 0; step < GetParam().steps; ++step) {
      twins.step(GetParam().flows_max);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace vma
