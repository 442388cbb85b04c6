// Goal: a lower bound of a trace holds for each of its replays, whatever the policy, when it acts,
// and however late devices are.

#include "lab/bounds/instance_builder.hpp"
#include "lab/bounds/placement_bounds.hpp"
#include "support/test_run.hpp"
#include "unit/lab/replay/replay_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

ReplayMachine machine_of(const ReplayRig& rig) {
  return {"two GPUs",
          {{gpu(0), rig.hbm_bytes, 0, 0},
           {gpu(1), rig.hbm_bytes, 0, 0},
           {host(0), rig.host_bytes, 0, 0}},
          rig.gpus.costs,
          LinkMap(rig.gpus.peers, rig.gpus.costs)};
}

/// Access and move cost. Requires: all fixed costs of moves are `fixed`.
double cost(const ReplayReport& report, const ReplayRig& rig, Time fixed) {
  double seconds = report.access_s +
                   static_cast<double>(report.moves) * std::chrono::duration<double>(fixed).count();
  for (const PlaceId from : {gpu_0, gpu_1, host_0}) {
    for (const PlaceId to : {gpu_0, gpu_1, host_0}) {
      const auto name = [](PlaceId at) {
        return to_string(at == gpu_0 ? gpu(0) : at == gpu_1 ? gpu(1) : host(0));
      };
      const auto moved = report.bytes_by_route.find(name(from) + ">" + name(to));
      if (moved != report.bytes_by_route.end())
        seconds += static_cast<double>(moved->second) / rig.gpus.costs.copy_rate(from, to);
    }
  }
  return seconds;
}

double lower_bound(ListedTrace& trace, const ReplayRig& rig) {
  return find_bound(trace, machine_of(rig), rig.router, rig.options).lower_bound_s;
}

/// A few objects, each hot for one device for a while; some are freed and allocated again.
class HotTrace {
 public:
  /// With `moves`, the trace itself moves memory.
  explicit HotTrace(std::uint64_t seed, bool moves = false) : random_(seed) {
    const std::uint64_t objects = 3 + below(8), events = 200 + below(400);
    const bool named = below(2) == 0;
    homes_ = below(2) == 0;
    for (std::uint64_t object = 0; object < objects; ++object) make(object);
    std::vector<std::uint64_t> user(objects);
    for (std::uint64_t i = 0; i < events; ++i) {
      now_ += microseconds(below(60'000));
      const std::uint64_t object = below(1 + below(objects));
      if (below(20) == 0) user[object] = below(2);
      if (below(60) == 0) {
        trace.free(now_, object);
        make(object);
      }
      if (moves && below(30) == 0) {
        const Place at[] = {gpu(0), gpu(1), host(0)};
        const std::uint64_t size = sizes_[object], from = below(size);
        trace.place(now_, object, 1 + below(size - from), TracePlace(at[below(3)]), from);
      }
      const std::uint64_t device = below(5) == 0 ? below(2) : user[object];
      trace.access(now_, object, 50, named ? TracePlace(gpu(static_cast<int>(device))) : nobody);
      trace.last().passes = static_cast<float>(1 + below(8));
      trace.last().use = static_cast<UseKind>(below(3));
      if (below(4) == 0) trace.last().duration = microseconds(below(80'000));
      if (!named) trace.last().task = static_cast<std::uint32_t>(below(10));
    }
  }

  ListedTrace trace;

 private:
  static constexpr TracePlace nobody{};
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  void make(std::uint64_t object) {
    const bool home = homes_ && below(3) != 0;
    sizes_[object] = 50 + below(300);
    trace.alloc(now_, object, sizes_[object], home ? TracePlace(host(0)) : nobody);
  }

  std::mt19937_64 random_;
  Time now_{0};
  std::map<std::uint64_t, std::uint64_t> sizes_;  // Keyed by object.
  bool homes_ = false;
};

class BoundOfReplay : public testing::TestWithParam<std::string> {};

/// Compares the bound with what `policy` pays on random traces and machines. Returns the largest
/// ratio of bound to cost.
double closest_bound(const std::string& policy, bool moves) {
  constexpr Time fixed = milliseconds(2);
  double closest = 0;
  for (std::uint64_t seed = run_seed(); seed < run_seed() + sampled(30); ++seed) {
    ReplayRig rig;
    rig.hbm_bytes = 400 + 100 * (seed % 20);
    rig.host_bytes = 20'000;
    rig.router = std::array{"hash", "round_robin", "prefix"}[seed % 3];
    rig.options.pacing = seed % 3 == 0 ? Pacing::at_once : Pacing::timed;
    rig.options.queue_max = 1 + seed % 7;
    rig.options.scheduler.planner.least_residence = milliseconds(50);
    for (const PlaceId from : {gpu_0, gpu_1, host_0})
      for (const PlaceId to : {gpu_0, gpu_1, host_0}) rig.gpus.costs.move_fixed(from, to) = fixed;
    HotTrace bounded(seed, moves), replayed(seed, moves);
    const double bound = lower_bound(bounded.trace, rig);
    const ReplayReport report = rig.run(replayed.trace, policy);
    EXPECT_EQ(report.accesses_lost, 0u) << "seed " << seed;
    const double paid = cost(report, rig, fixed);
    EXPECT_GE(paid, bound) << "seed " << seed;
    EXPECT_GE(bound, report.local_s * (1 - 1e-6)) << "seed " << seed;
    closest = std::max(closest, bound / paid);
  }
  return closest;
}

TEST_P(BoundOfReplay, IsBelowWhatThePolicyPays) {
  const double closest = closest_bound(GetParam(), false);
  EXPECT_TRUE(under_sanitizer || closest > 0.2) << closest;
}

TEST_P(BoundOfReplay, IsBelowThatAlsoWhereTheTraceMovesMemory) {
  const double closest = closest_bound(GetParam(), true);
  EXPECT_TRUE(under_sanitizer || closest > 0.1) << closest;
}

INSTANTIATE_TEST_SUITE_P(Policies, BoundOfReplay, testing::ValuesIn(policy_names()),
                         [](const auto& policy) { return policy.param; });

/// Two GPUs use a chunk in turn, but the first has other work to do before. So the second one's ten
/// uses all happen first, and one move is enough, where the order of the trace needs nineteen.
struct LateDevice {
  LateDevice() {
    trace.alloc(Time(0), 1, 100, TracePlace(gpu(1))).alloc(Time(0), 2, 100, TracePlace(gpu(0)));
    use(2, 0, 4000);
    for (int i = 0; i < 10; ++i) {
      use(1, 0, 40);
      use(1, 1, 40);
    }
  }
  void use(std::uint64_t object, int device, float passes) {
    trace.access(Time(0), object, 100, TracePlace(gpu(device)));
    trace.last().passes = passes;
  }
  double bound(std::size_t late_max) {
    InstanceOptions options;
    options.chunk_bytes = 100;
    options.late_max = late_max;
    const ReplayMachine machine = machine_of(rig);
    return placement_bounds(InstanceBuilder(machine, options, make_router("hash")).build(trace))
        .best()
        .lower_bound_s;
  }

  ReplayRig rig;
  ListedTrace trace;
};

TEST(BoundOfLateReplay, KnowsThatDevicesMayBeLate) {
  LateDevice late, known, never_late;
  const auto move_when_free = [](const Snapshot& snapshot, Plan& plan) {
    if (snapshot.now() > seconds(20) && snapshot.chunk(ChunkId{0}).at == gpu_1)
      plan.move(ChunkId{0}, gpu_0, 0, "free");
  };
  const ReplayReport report =
      late.rig.run(late.trace, std::make_unique<ToldPolicy>(move_when_free));
  EXPECT_EQ(report.moves, 1u);
  const double paid = cost(report, late.rig, Time(0));
  EXPECT_LT(paid, 120.3);  // 120 s of use, a move of 0.25 s, and the link time that the move takes.
  EXPECT_LE(known.bound(late.rig.options.queue_max), paid);
  EXPECT_GT(never_late.bound(0), 120 + 19 * 0.25 - 1e-6);  // With devices that are never late.
}

TEST(BoundOfLateReplay, KnowsThatADeviceMayBeLateByManyBlocks) {
  const auto fill = [](ListedTrace& trace) {
    const auto use = [&](std::uint64_t object, int device, float passes) {
      trace.access(Time(0), object, 100, TracePlace(gpu(device)));
      trace.last().passes = passes;
    };
    trace.alloc(Time(0), 1, 100, TracePlace(gpu(1))).alloc(Time(0), 2, 100, TracePlace(gpu(0)));
    trace.alloc(Time(0), 3, 100, TracePlace(gpu(1)));
    use(2, 0, 4000);  // 100 s
    for (int phase = 0; phase < 5; ++phase) {
      use(1, 0, 40);
      use(1, 1, 40);
      for (int other = 0; other < 120; ++other) use(3, 1, 1);
    }
  };
  ReplayRig rig;
  rig.options.queue_max = 12;
  ListedTrace replayed, bounded;
  fill(replayed);
  fill(bounded);
  const auto move_when_free = [](const Snapshot& snapshot, Plan& plan) {
    if (snapshot.now() > seconds(50) && snapshot.chunk(ChunkId{0}).at == gpu_1)
      plan.move(ChunkId{0}, gpu_0, 0, "free");
  };
  const ReplayReport report = rig.run(replayed, std::make_unique<ToldPolicy>(move_when_free));
  EXPECT_EQ(report.moves, 1u);
  EXPECT_LE(lower_bound(bounded, rig), cost(report, rig, Time(0)));
}

TEST(BoundOfSpilledReplay, LetsWhatFoundNoRoomBeginElsewhere) {
  const auto fill = [](ListedTrace& trace) {
    for (std::uint64_t object = 1; object <= 3; ++object)
      trace.alloc(Time(0), object, 100, TracePlace(host(0)));
    for (int i = 0; i < 50; ++i) {
      trace.access(seconds(i), 2, 100, TracePlace(gpu(0)));
      trace.access(seconds(i), 3, 100, TracePlace(gpu(0)));
    }
  };
  ReplayRig rig;
  rig.host_bytes = 150;
  ListedTrace replayed, bounded;
  fill(replayed);
  fill(bounded);
  const ReplayReport report = rig.run(replayed);
  EXPECT_EQ(report.chunks_spilled, 2u);
  const double paid = cost(report, rig, Time(0));
  // The reads take 2.5 s. Bringing both objects from the host would add 4 s.
  EXPECT_LT(paid, 5);
  EXPECT_LE(lower_bound(bounded, rig), paid);
}

/// The bound for an object in host memory that a GPU passes over fifty times, once a second.
double bound_of_reads(const ReplayRig& rig) {
  ListedTrace trace;
  trace.alloc(Time(0), 1, 100, TracePlace(host(0)));
  for (int i = 0; i < 50; ++i) trace.access(seconds(i), 1, 100, TracePlace(gpu(0)));
  return lower_bound(trace, rig);
}

TEST(BoundOfReads, IsSharpWhereOnlyOneThingCanBeDone) {
  ReplayRig rig;
  EXPECT_NEAR(bound_of_reads(rig), 50 * 0.025 + 2, 1e-6);  // It moves to the GPU first, in 2 s.
  // Without room it is read remotely. But all late accesses may begin at the end of the trace.
  rig.hbm_bytes = 99;
  rig.options.queue_max = 1;
  EXPECT_GT(bound_of_reads(rig), 90);
  EXPECT_LE(bound_of_reads(rig), 100);
}

/// One chunk that is used, and moved by its trace, at intervals of a second.
class MovedChunk {
 public:
  explicit MovedChunk(std::uint64_t seed) : random_(seed) {
    trace.alloc(Time(0), 1, 100, at(2));
    for (int i = 0; i < 12; ++i) {
      const std::size_t place = random_() % 3;
      const bool use = random_() % 4 != 0;
      steps_.push_back({use, use ? place % 2 : place, 1 + random_() % 40});
      if (use) {
        trace.access(seconds(i), 1, 100, at(steps_.back().place));
        trace.last().passes = static_cast<float>(steps_.back().passes);
      } else {
        trace.place(seconds(i), 1, 100, at(place));
      }
    }
  }
  /// The lowest cost of all ways to move it between its uses, by exhaustive search.
  double cheapest(const MachineCosts& costs) const {
    std::array<double, 3> now{never, never, 0};
    for (const Step& step : steps_) {
      std::array<double, 3> next{never, never, never};
      for (std::size_t from = 0; from < 3; ++from) {
        for (std::size_t to = 0; to < 3; ++to) {
          const PlaceId source = id(from), target = id(to), self = id(step.place);
          double paid = now[from];
          if (from != to)
            paid += std::chrono::duration<double>(costs.move_time(source, target, 100)).count();
          if (step.use)
            paid += costs.access_seconds(self, target, 100.0 * static_cast<double>(step.passes));
          const std::size_t lies = step.use ? to : step.place;
          next[lies] = std::min(next[lies], paid);
        }
      }
      now = next;
    }
    return *std::ranges::min_element(now);
  }

  ListedTrace trace;

 private:
  struct Step {
    bool use = false;  // Used by the GPU; otherwise placed there.
    std::size_t place = 0;
    std::uint64_t passes = 0;
  };
  static constexpr double never = std::numeric_limits<double>::infinity();
  static PlaceId id(std::size_t place) { return PlaceId{static_cast<std::uint8_t>(place)}; }
  static TracePlace at(std::size_t place) {
    return place == 2 ? TracePlace(host(0)) : TracePlace(gpu(static_cast<int>(place)));
  }

  std::mt19937_64 random_;
  std::vector<Step> steps_;
};

TEST(BoundOfTraceThatMovesMemory, IsNotAboveTheCheapestOfAllWays) {
  int above_floor = 0;
  for (std::uint64_t seed = run_seed(); seed < run_seed() + 300; ++seed) {
    MovedChunk chunk(seed);
    ReplayRig rig;
    for (const PlaceId from : {gpu_0, gpu_1, host_0})
      for (const PlaceId to : {gpu_0, gpu_1, host_0})
        rig.gpus.costs.move_fixed(from, to) = milliseconds(seed % 500);
    InstanceOptions options;
    options.chunk_bytes = 100;
    options.late_max = 0;  // The closest possible bound.
    const ReplayMachine machine = machine_of(rig);
    const PlacementBounds bounds =
        placement_bounds(InstanceBuilder(machine, options, make_router("hash")).build(chunk.trace));
    ASSERT_LE(bounds.best().lower_bound_s, chunk.cheapest(rig.gpus.costs)) << "seed " << seed;
    above_floor += bounds.best().lower_bound_s > 1.01 * bounds.floor_s ? 1 : 0;
  }
  EXPECT_GT(above_floor, 100) << "it would say nothing";
}

/// Every use is local, before the trace moves the memory and after: there is nothing else to pay.
TEST(BoundOfTraceThatMovesMemory, KnowsThatWhatMayWaitMayAlsoHaveBegunBefore) {
  const auto fill = [](ListedTrace& trace) {
    trace.alloc(Time(0), 1, 100, TracePlace(gpu(0)));
    trace.access(Time(0), 1, 100, TracePlace(gpu(0))).last().passes = 40;
    trace.place(seconds(5), 1, 100, TracePlace(gpu(1)));
    trace.access(seconds(6), 1, 100, TracePlace(gpu(1))).last().passes = 40;
  };
  ReplayRig rig;
  ListedTrace replayed, bounded;
  fill(replayed);
  fill(bounded);
  const ReplayReport report = rig.run(replayed);
  EXPECT_NEAR(report.access_s, report.local_s, 1e-9);
  EXPECT_LE(lower_bound(bounded, rig), cost(report, rig, Time(0)));
}

TEST(BoundOfTraceThatMovesMemory, HasNoPlan) {
  ListedTrace trace;
  trace.alloc(Time(0), 1, 100, TracePlace(host(0))).access(seconds(1), 1, 100, TracePlace(gpu(0)));
  trace.place(seconds(2), 1, 100, TracePlace(gpu(0)));
  trace.access(seconds(3), 1, 100, TracePlace(gpu(0)));
  ReplayRig rig;
  EXPECT_FALSE(find_bound(trace, machine_of(rig), "hash", rig.options).plan_s);
}

TEST(InstanceBuilder, RefusesWhatItCannotKnow) {
  ReplayRig rig;
  const auto refusal = [&](ListedTrace& trace, const std::string& router) {
    try {
      find_bound(trace, machine_of(rig), router, rig.options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("it was taken");
  };
  const auto says = [](const std::string& what, const std::string& words) {
    EXPECT_NE(what.find(words), std::string::npos) << what;
  };
  ListedTrace unnamed, again, empty, dead, beyond, fine;
  unnamed.alloc(Time(0), 1, 100).access(Time(0), 1, 100);
  says(refusal(unnamed, "least_loaded"), "event 2 names no device");
  says(refusal(again, "nearest"), "is not a router");
  says(refusal(empty, "hash"), "no events");
  dead.free(Time(0), 7);
  says(refusal(dead, "hash"), "event 1: object 7 does not exist");
  beyond.alloc(Time(0), 7, 10).access(Time(0), 7, 11);
  says(refusal(beyond, "hash"), "event 2: 11 bytes from 0 on of object 7, which has 10");
  rig.options.chunk_bytes = 1;
  fine.alloc(Time(0), 7, 1u << 30, TracePlace(host(0)));
  says(refusal(fine, "hash"), "event 1: more than 4000000 chunks");
}

TEST(InstanceBuilder, RefusesMoreUsesThanItCanKeep) {
  ReplayRig rig;
  const ReplayMachine machine = machine_of(rig);
  InstanceOptions options;
  options.chunk_bytes = 1;
  options.uses_max = 10;
  ListedTrace trace;
  trace.alloc(Time(0), 1, 100, TracePlace(host(0))).access(Time(0), 1, 100, TracePlace(gpu(0)));
  EXPECT_THROW(InstanceBuilder(machine, options, make_router("hash")).build(trace), Error);
}

TEST(InstanceBuilder, NothingUsedCostsNothing) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(Time(0), 1, 100).alloc(Time(0), 2, 100, TracePlace(host(0)));
  const Bound bound = find_bound(trace, machine_of(rig), "hash", rig.options);
  EXPECT_EQ(bound.lower_bound_s, 0);
  EXPECT_EQ(bound.plan_s, 0);
  EXPECT_FALSE(bound.gap);
}

TEST(InstanceBuilder, MakesBlocksLongerWhereThereIsTooMuch) {
  ReplayRig rig;
  HotTrace one(5), other(5);
  const ReplayMachine machine = machine_of(rig);
  InstanceOptions options;
  options.chunk_bytes = 100;
  options.late_max = 2;
  const PlacementInstance whole =
      InstanceBuilder(machine, options, make_router("hash")).build(one.trace);
  options.uses_max = 40;
  const PlacementInstance coarse =
      InstanceBuilder(machine, options, make_router("hash")).build(other.trace);
  EXPECT_GT(whole.uses.size(), 80u);
  EXPECT_LT(coarse.uses.size(), 80u);
  EXPECT_LT(coarse.blocks, whole.blocks);
  EXPECT_NEAR(coarse.floor_s, whole.floor_s, 1e-9 * whole.floor_s);
  EXPECT_LE(placement_bounds(coarse).best().lower_bound_s,
            placement_bounds(whole).best().lower_bound_s + 1e-9);
}

}  // namespace
}  // namespace vma
