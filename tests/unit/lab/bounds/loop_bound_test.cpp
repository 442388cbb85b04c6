// Goal: the bound of a closed loop is below the time of each of its replays, whatever the policy
// and wherever memory begins, and close to the best of them on small traces.

#include "lab/bounds/loops/loop_bound.hpp"
#include "lab/bounds/loops/loop_graph.hpp"
#include "lab/bounds/placement_bounds.hpp"
#include "support/test_run.hpp"
#include "unit/lab/replay/replay_rig.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

double loop_bound(ListedTrace& trace, const ReplayRig& rig) {
  return find_loop_bound(trace, rig.machine(), rig.router, rig.options).lower_bound_s;
}

double seconds_of(const ReplayReport& report) {
  return std::chrono::duration<double>(report.end - report.begin).count();
}

/// Some objects, and tasks in a random order that use them; some repeated, some of requests.
class RandomLoop {
 public:
  explicit RandomLoop(std::uint64_t seed, std::size_t objects, std::size_t tasks, bool frees)
      : random_(seed) {
    for (std::size_t object = 1; object <= objects; ++object) {
      sizes.push_back(50 + below(300));
      homes_.push_back(below(4) == 0 ? TracePlace(host(0)) : TracePlace());
    }
    device_ = below(3) != 0;
    tasks_ = tasks;
    frees_ = frees;
    seed_ = seed;
  }
  /// The same trace every time, with objects that begin at these places instead of their own.
  void fill(ListedTrace& trace, const std::vector<TracePlace>& homes = {}) {
    random_.seed(seed_ + 1);
    for (std::size_t i = 0; i < sizes.size(); ++i)
      trace.alloc(start, i + 1, sizes[i], homes.empty() ? homes_[i] : homes[i]);
    Time now = start;
    for (std::uint32_t number = 1; number <= tasks_; ++number) add_task(trace, number, now);
    for (std::size_t i = 0; frees_ && i < sizes.size(); ++i) trace.free(now, i + 1);
  }
  std::vector<std::uint64_t> sizes;
  bool owned = false;

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  void add_task(ListedTrace& trace, std::uint32_t number, Time& now) {
    if (below(4) == 0) now += milliseconds(below(3000));
    const TracePlace at = device_ ? TracePlace(gpu(static_cast<int>(below(2)))) : TracePlace();
    const Time compute = below(4) == 0 ? Time(0) : Time(milliseconds(below(400)));
    trace.task(now, number, compute, {}, below(3) == 0 ? 1 + below(30) : 1, at);
    if (!device_ && below(2) == 0) trace.last().object = 1 + below(4);
    if (number > 1 && below(3) != 0) {
      TraceEvent after;
      after.kind = TraceEventKind::after;
      after.time = now;
      after.task = number;
      after.object = number - 1 - below(std::min<std::uint64_t>(number - 1, 3));
      trace.add(after);
    }
    for (std::uint64_t accesses = below(4); accesses > 0; --accesses) {
      std::size_t object = below(sizes.size());
      // With `owned`, a GPU uses only every other object.
      if (owned && at.is_set()) object = object / 2 * 2 + (at == on_1 ? 1 : 0);
      object %= sizes.size();
      const std::uint64_t offset = below(sizes[object]);
      const bool whole = below(3) != 0;
      trace.access(now, object + 1, whole ? sizes[object] : 1 + below(sizes[object] - offset), at,
                   whole ? 0 : offset);
      trace.last().passes = static_cast<float>(1 + below(30)) / 4;
      trace.last().use = static_cast<UseKind>(below(3));
      trace.of_task(number);
    }
  }

  std::mt19937_64 random_;
  std::vector<TracePlace> homes_;
  std::uint64_t seed_ = 0;
  std::size_t tasks_ = 0;
  bool device_ = false, frees_ = false;
};

ReplayRig rig_for(std::uint64_t seed) {
  ReplayRig rig;
  rig.hbm_bytes = 300 + 100 * (seed % 12);
  rig.host_bytes = 20'000;
  rig.router = std::array{"hash", "round_robin", "prefix"}[seed % 3];
  rig.options.pacing = seed % 5 == 0 ? Pacing::at_once : Pacing::timed;
  rig.options.scheduler.planner.least_residence = milliseconds(50);
  return rig;
}

class BoundOfLoop : public testing::TestWithParam<std::string> {};

TEST_P(BoundOfLoop, IsBelowTheTimeOfTheReplay) {
  double closest = 0;
  for (std::uint64_t seed = run_seed(); seed < run_seed() + sampled(30); ++seed) {
    ReplayRig rig = rig_for(seed);
    RandomLoop loop(seed, 2 + seed % 9, 10 + seed % 40, seed % 2 == 0);
    ListedTrace replayed, bounded;
    loop.fill(replayed);
    loop.fill(bounded);
    const double bound = loop_bound(bounded, rig);
    const ReplayReport report = rig.run(replayed, GetParam());
    if (report.accesses_lost > 0) continue;
    ASSERT_LE(bound, seconds_of(report)) << "seed " << seed;
    closest = std::max(closest, bound / seconds_of(report));
  }
  EXPECT_GT(closest, 0) << "it says something";
}

INSTANTIATE_TEST_SUITE_P(Policies, BoundOfLoop, testing::ValuesIn(policy_names()),
                         [](const auto& policy) { return policy.param; });

/// The replay of the best places without moves, of all that there are.
double best_of_all_places(RandomLoop& loop, ReplayRig& rig) {
  const std::array places{on_0, on_1, on_host};
  double best = unreachable;
  std::vector<TracePlace> homes(loop.sizes.size());
  std::size_t ways = 1;
  for (std::size_t i = 0; i < homes.size(); ++i) ways *= places.size();
  for (std::size_t way = 0; way < ways; ++way) {
    std::size_t rest = way;
    for (TracePlace& home : homes) {
      home = places[rest % places.size()];
      rest /= places.size();
    }
    ListedTrace trace;
    loop.fill(trace, homes);
    const ReplayReport report = rig.run(trace, "stay_put");
    if (report.accesses_lost == 0) best = std::min(best, seconds_of(report));
  }
  return best;
}

/// Time at the best places without moves, or under the best of three policies, over the bound, of
/// random loops: the median and the highest.
std::pair<double, double> looseness(bool owned) {
  std::vector<double> loose;
  for (std::uint64_t seed = run_seed(); seed < run_seed() + sampled(200); ++seed) {
    ReplayRig rig = rig_for(seed);
    rig.options.tick = rig.options.collect_every = rig.options.use_interval = seconds(1);
    RandomLoop loop(seed, 3, 9, false);
    loop.owned = owned;
    ListedTrace bounded;
    loop.fill(bounded, std::vector<TracePlace>(loop.sizes.size()));
    const double bound = loop_bound(bounded, rig);
    double best = best_of_all_places(loop, rig);
    rig.options = rig_for(seed).options;
    for (const char* const policy : {"auto", "cost_benefit", "two_touch"}) {
      ListedTrace trace;
      loop.fill(trace, std::vector<TracePlace>(loop.sizes.size()));
      const ReplayReport report = rig.run(trace, policy);
      if (report.accesses_lost == 0) best = std::min(best, seconds_of(report));
    }
    EXPECT_LE(bound, best) << "seed " << seed;
    if (bound > 0) loose.push_back(best / bound);
  }
  std::ranges::sort(loose);
  fmt::print("best known / bound, {}: median {:.3f}, worst {:.3f} of {}\n",
             owned ? "each object used by one GPU" : "objects used by all GPUs",
             loose[loose.size() / 2], loose.back(), loose.size());
  return {loose[loose.size() / 2], loose.back()};
}

TEST(BoundOfLoopAtAnyPlaces, IsBelowTheBestAndCloseToItIfNothingIsShared) {
  EXPECT_LT(looseness(true).first, 2);
}

TEST(BoundOfLoopAtAnyPlaces, IsBelowTheBestIfMemoryIsShared) {
  EXPECT_LT(looseness(false).first, 3);
}

/// On each GPU, ten steps of ten seconds read four times as much as its HBM holds.
TEST(BoundOfFullLoop, KnowsThatNotEverythingCanBeLocalAtOnce) {
  const auto fill = [](ListedTrace& trace) {
    for (std::uint64_t object = 1; object <= 4; ++object) trace.alloc(start, object, 2000);
    trace.task(start, 1, seconds(10), {}, 10, on_0);
    for (const std::uint64_t object : {1, 2}) trace.access(start, object, 2000, on_0).of_task(1);
    trace.task(start, 2, seconds(10), {}, 10, on_1);
    for (const std::uint64_t object : {3, 4}) trace.access(start, object, 2000, on_1).of_task(2);
  };
  ReplayRig rig;
  ListedTrace bounded, roomy, replayed;
  fill(bounded);
  fill(roomy);
  fill(replayed);
  const double bound = loop_bound(bounded, rig);
  EXPECT_GT(bound, 120);
  EXPECT_LE(bound, seconds_of(rig.run(replayed)));
  rig.hbm_bytes = 4000;
  EXPECT_NEAR(loop_bound(roomy, rig), 100, 1e-6);
}

/// Eight tasks that nothing orders read 1000 bytes each from a full host, over one link of 50 bytes
/// a second: the next GPU and the HBM have no room.
TEST(BoundOfFullLoop, KnowsThatTasksShareLinks) {
  const auto fill = [](ListedTrace& trace) {
    for (std::uint64_t object = 1; object <= 8; ++object) trace.alloc(start, object, 1000, on_host);
    for (std::uint32_t task = 1; task <= 8; ++task) {
      trace.task(start, task, Time(0), {}, 1, on_0);
      trace.access(start, task, 1000, on_0).of_task(task);
    }
  };
  ReplayRig rig;
  ListedTrace bounded, replayed;
  fill(bounded);
  fill(replayed);
  const double bound = loop_bound(bounded, rig);
  EXPECT_GT(bound, 70);  // Half of the bytes may come by way of the other GPU.
  EXPECT_LE(bound, seconds_of(rig.run(replayed)));
}

}  // namespace
}  // namespace vma
