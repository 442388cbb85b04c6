// Goal: the control target shows a runtime's state and carries out requests, each operation with
// its events in order. Method: simulated machines, with the scheduler stepped by hand.
#include "runtime/runtime_control.hpp"

#include "base/units.hpp"
#include "memory/move_claim.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/runtime_rig.hpp"
#include "unit/runtime/scheduler_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace vma {
namespace {

using Kind = ControlEvent::Kind;
constexpr std::uint64_t chunk = SchedulerRig::chunk_bytes;

class RuntimeControlTest : public testing::Test {
 protected:
  explicit RuntimeControlTest(const std::string& policy = "counter") : rig_(policy) {}

  ControlTarget& control() { return parts_of(rig_.runtime()).machinery->scheduling->control(); }
  static ControlMove move_of(const void* pointer, Place to) {
    return {{Selector::of_address(to_integer(address_of(pointer)))}, to};
  }
  static ControlMove move_of_tag(const std::string& tag, Place to) {
    return {{Selector::of_tag(tag)}, to};
  }
  std::uint64_t start(const ControlMove& move) { return control().start_move(move).operation; }
  std::vector<ControlEvent> events() { return control().events(0, 10'000).events; }
  /// Waits for the last event of the operation and returns it.
  ControlEvent end_of(std::uint64_t operation) {
    ControlEvent found;
    EXPECT_TRUE(comes_true([&] {
      for (const ControlEvent& event : events()) {
        const bool ends = event.kind == Kind::operation_done ||
                          event.kind == Kind::operation_failed || event.kind == Kind::stepped;
        if (event.operation == operation && ends) found = event;
      }
      return found.sequence != 0;
    }));
    return found;
  }
  std::size_t count(Kind kind) {
    const auto all = events();
    return static_cast<std::size_t>(std::ranges::count(all, kind, &ControlEvent::kind));
  }

  SchedulerRig rig_;
};

TEST_F(RuntimeControlTest, ShowsTheRuntimeAsItIs) {
  std::uint64_t* words = rig_.alloc(3, gpu(0), "weights");
  rig_.alloc(1, host(0));
  rig_.step();
  const ControlStatus status = control().status();
  EXPECT_EQ(status.description, rig_.runtime().description());
  EXPECT_EQ(status.policy, "counter");
  EXPECT_FALSE(status.paused);
  EXPECT_EQ(status.ticks, 1u);
  EXPECT_EQ(status.allocations, 2u);
  EXPECT_EQ(status.moves_running + status.moves_queued, 0u);
  ASSERT_EQ(status.places.size(), 3u);
  EXPECT_EQ(status.places[0].at, gpu(0));
  EXPECT_EQ(status.places[0].used_bytes, 3 * chunk);
  EXPECT_GT(status.places[0].capacity_bytes, 3 * chunk);
  EXPECT_EQ(status.places[2].used_bytes, chunk);

  const ControlAllocation one = control().allocation(to_integer(address_of(words)) + chunk);
  EXPECT_EQ(one.address, to_integer(address_of(words)));
  EXPECT_EQ(one.bytes, 3 * chunk);
  EXPECT_EQ(one.chunk_bytes, chunk);
  EXPECT_EQ(one.tag, "weights");
  EXPECT_TRUE(one.movable);
  EXPECT_FALSE(one.parked);
  EXPECT_EQ(one.extents, rig_.runtime().where(words));
  {
    const Pin pin = rig_.runtime().pin(words);
    EXPECT_FALSE(control().allocation(one.address).movable);
  }
  rig_.runtime().park("weights");
  EXPECT_TRUE(control().allocation(one.address).parked);
  EXPECT_EQ(control().allocation(one.address).dropped_bytes, 0u);
  ParkOptions dropping;
  dropping.contents = ParkContents::drop;
  rig_.runtime().park("weights", dropping);
  const ControlAllocation dropped = control().allocation(one.address);
  EXPECT_EQ(dropped.dropped_bytes, 3 * chunk);
  EXPECT_TRUE(dropped.bytes_at.empty());
  EXPECT_EQ(kind_of_error([&] { control().allocation(16); }), ErrorKind::unknown_pointer);
}

TEST_F(RuntimeControlTest, ListsAllocationsByAddressPageByPage) {
  for (int i = 0; i < 5; ++i) rig_.alloc(1, gpu(i % 2));
  const auto all = control().allocations(0, 100);
  ASSERT_EQ(all.size(), 5u);
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &ControlAllocation::address));
  const auto page = control().allocations(all[1].address + 1, 2);
  ASSERT_EQ(page.size(), 2u);
  EXPECT_EQ(page[0].address, all[2].address);
  EXPECT_TRUE(page[0].extents.empty());
  EXPECT_EQ(page[0].bytes_at.size(), 1u);
}

TEST_F(RuntimeControlTest, AMoveIsFollowedChunkByChunkToItsEnd) {
  std::uint64_t* words = rig_.alloc(3, gpu(0), "weights");
  const std::uint64_t operation = start(move_of_tag("weights", gpu(1)));
  const ControlEvent end = end_of(operation);
  EXPECT_EQ(end.kind, Kind::operation_done) << end.text;
  EXPECT_EQ(end.bytes, 3 * chunk);
  EXPECT_EQ(end.to, gpu(1));
  EXPECT_GT(end.took.count(), 0);
  EXPECT_GT(end.stall.count(), 0);
  // A gate if the stream got to one within a millisecond, which a busy computer may not let it.
  EXPECT_TRUE(end.stop == StopKind::gate || end.stop == StopKind::suspension);
  EXPECT_EQ(rig_.place(words), gpu(1));
  std::uint64_t begun = 0, done = 0, last = 0;
  for (const ControlEvent& event : events()) {
    EXPECT_EQ(event.sequence, ++last);
    if (event.operation != operation) continue;
    begun += event.kind == Kind::move_started ? 1 : 0;
    if (event.kind != Kind::move_done) continue;
    EXPECT_EQ(event.address, to_integer(address_of(words)) + done * chunk);
    EXPECT_LT(done++, begun);
    EXPECT_EQ(event.from, gpu(0));
    EXPECT_GT(event.took, event.stall);
    EXPECT_LT(event.sequence, end.sequence);
  }
  EXPECT_EQ(begun, 3u);
  EXPECT_EQ(done, 3u);
}

// Each allocation moves once, however often it is named.
TEST_F(RuntimeControlTest, SeveralTagsAndAddressesAreOneOperation) {
  std::uint64_t *one = rig_.alloc(2, gpu(0), "weights"), *two = rig_.alloc(1, gpu(0), "cache"),
                *three = rig_.alloc(1, gpu(0)), *other = rig_.alloc(1, gpu(0), "inputs");
  const ControlMove move{
      {Selector::of_address(to_integer(address_of(three))),
       Selector::of_address(to_integer(address_of(one)) + chunk), Selector::of_tag("weights"),
       Selector::of_tag("cache"), Selector::of_tag("weights")},
      gpu(1)};
  EXPECT_EQ(control().predict(move).chunks, 4u);
  const ControlEvent end = end_of(start(move));
  EXPECT_EQ(end.kind, Kind::operation_done) << end.text;
  EXPECT_EQ(end.bytes, 4 * chunk);
  for (std::uint64_t* moved : {one, two, three}) EXPECT_EQ(rig_.place(moved), gpu(1));
  EXPECT_EQ(rig_.place(other), gpu(0));
  EXPECT_EQ(kind_of_error([&] {
              start({{Selector::of_tag("inputs"), Selector::of_tag("nobody's")}, gpu(1)});
            }),
            ErrorKind::invalid_argument);
  EXPECT_EQ(rig_.place(other), gpu(0));
}

TEST_F(RuntimeControlTest, UsersMovesAreEventsToo) {
  std::uint64_t* words = rig_.alloc(2, gpu(0));
  rig_.runtime().migrate(words, host(0));
  EXPECT_EQ(count(Kind::move_started), 2u);
  EXPECT_EQ(count(Kind::move_done), 2u);
}

TEST_F(RuntimeControlTest, RefusesWhatMigrateRefuses) {
  std::uint64_t* words = rig_.alloc(1, gpu(0));
  const auto refusal = [&](const ControlMove& move) {
    return kind_of_error([&] { control().start_move(move); });
  };
  EXPECT_EQ(refusal(move_of_tag("nobody's", gpu(1))), ErrorKind::invalid_argument);
  EXPECT_EQ(refusal({{Selector::of_address(16)}, gpu(1)}), ErrorKind::unknown_pointer);
  EXPECT_EQ(refusal(move_of(words, gpu(7))), ErrorKind::invalid_argument);
  {
    const Pin pin = rig_.runtime().pin(words);
    EXPECT_EQ(refusal(move_of(words, gpu(1))), ErrorKind::pinned);
  }
  EXPECT_EQ(count(Kind::operation_done) + count(Kind::operation_failed), 0u);
}

TEST_F(RuntimeControlTest, AMoveThatFailsSaysWhy) {
  std::uint64_t* words = rig_.alloc(2, gpu(0));
  MoveHooks hooks;
  hooks.before = [](const MoveEvent&) { throw std::runtime_error("not now"); };
  const auto hook = rig_.runtime().on_move(words, hooks);
  const ControlEvent end = end_of(start(move_of(words, gpu(1))));
  EXPECT_EQ(end.kind, Kind::operation_failed);
  EXPECT_NE(end.text.find("not now"), std::string::npos) << end.text;
  EXPECT_EQ(count(Kind::move_done), 0u);
  EXPECT_EQ(count(Kind::move_started), count(Kind::move_failed));
}

TEST_F(RuntimeControlTest, PredictsWhatAMoveThenTakes) {
  constexpr std::uint64_t large_bytes = 512 * KiB;  // The largest chunk that this machine has.
  AllocOptions large;  // Large, so that most of a move is its copy, which the model predicts.
  large.chunk_bytes = large_bytes;
  auto* words = static_cast<std::uint64_t*>(rig_.runtime().alloc(13 * large_bytes, gpu(0), large));
  rig_.runtime().migrate_async(words, 0, large_bytes, gpu(1), {}).wait();
  const ControlPrediction prediction = control().predict(move_of(words, gpu(1)));
  EXPECT_EQ(prediction.chunks, 12u);
  EXPECT_EQ(prediction.bytes, 12 * large_bytes);
  EXPECT_EQ(prediction.bytes_no_room, 0u);
  EXPECT_GT(prediction.stall.count(), 0);
  EXPECT_LT(prediction.stall, prediction.took);
  EXPECT_EQ(rig_.runtime().where(words).back().at, gpu(0));  // Nothing has moved.
  const MachineCosts& costs = parts_of(rig_.runtime()).machinery->costs;
  EXPECT_EQ(prediction.took, 12 * costs.move_time(PlaceId{0}, PlaceId{1}, large_bytes));
  EXPECT_EQ(prediction.stall, 12 * costs.stall_time(PlaceId{0}, PlaceId{1}, large_bytes));
  // Moves under a hold: at gates the clock would also count the waits for threads that get no
  // processor.
  const Time took = rig_.runtime().migrate(words, gpu(1)).wall;
  EXPECT_LT(prediction.took, 3 * took);
  EXPECT_GT(3 * prediction.took, took);
  EXPECT_EQ(control().predict(move_of(words, gpu(1))).bytes, 0u);
  rig_.runtime().set_capacity(host(0), large_bytes);
  EXPECT_EQ(control().predict(move_of(words, host(0))).bytes_no_room, 12 * large_bytes);
}

TEST_F(RuntimeControlTest, ADrainEmptiesAPlaceUntilResume) {
  std::uint64_t* words = rig_.alloc(3, gpu(0));
  rig_.step();
  const ControlEvent end = end_of(control().start_drain(gpu(0)));
  EXPECT_EQ(end.kind, Kind::operation_done) << end.text;
  EXPECT_EQ(end.bytes, 3 * chunk);
  EXPECT_NE(rig_.place(words), gpu(0));
  EXPECT_EQ(control().status().places[0].capacity_bytes, 0u);
  control().resume();
  EXPECT_GT(control().status().places[0].capacity_bytes, 0u);
}

TEST_F(RuntimeControlTest, ADrainSaysWhatIsLeftAndThatThePlaceStaysClosed) {
  std::uint64_t* words = rig_.alloc(1, gpu(0));
  const Pin pin = rig_.runtime().pin(words);
  rig_.step();
  EXPECT_FALSE(control().status().places[0].closed);
  const ControlEvent end = end_of(control().start_drain(gpu(0)));
  EXPECT_EQ(end.kind, Kind::operation_failed);
  EXPECT_NE(end.text.find("1 chunk: pinned"), std::string::npos) << end.text;
  EXPECT_NE(end.text.find("gpu(0) accepts no memory until `vmart resume`"), std::string::npos)
      << end.text;
  EXPECT_TRUE(control().status().places[0].closed);
  EXPECT_FALSE(control().status().places[1].closed);
  control().resume();
  EXPECT_FALSE(control().status().places[0].closed);
}

TEST_F(RuntimeControlTest, ADrainIsRefusedWhilePausedAndDoesNothingLater) {
  std::uint64_t* words = rig_.alloc(3, gpu(0));
  rig_.step();
  control().pause();
  EXPECT_EQ(kind_of_error([&] { control().start_drain(gpu(0)); }), ErrorKind::busy);
  EXPECT_EQ(kind_of_error([&] { rig_.runtime().drain(gpu(0)); }), ErrorKind::busy);
  EXPECT_FALSE(control().status().places[0].closed);
  control().resume();
  rig_.step(3);
  EXPECT_EQ(rig_.place(words), gpu(0));
}

TEST_F(RuntimeControlTest, APauseEndsADrainAndWhatItPlanned) {
  std::uint64_t* words = rig_.alloc(3, gpu(0));
  rig_.step();
  std::uint64_t operation = 0;
  {
    // Moves of this allocation wait for the claim, so the drain cannot end earlier.
    const MoveClaim claim =
        MoveClaim::take(parts_of(rig_.runtime()).machinery->memory.require(words, "test"));
    operation = control().start_drain(gpu(0));
    EXPECT_TRUE(comes_true([&] { return control().status().places[0].closed; }));
    control().pause();
    const ControlEvent end = end_of(operation);
    EXPECT_EQ(end.kind, Kind::operation_failed);
    EXPECT_NE(end.text.find("the scheduler was paused"), std::string::npos) << end.text;
  }
  EXPECT_TRUE(control().status().places[0].closed);
  control().resume();
  rig_.step();
  EXPECT_EQ(rig_.place(words), gpu(0)) << "nothing of it is made up for";
}

TEST_F(RuntimeControlTest, ACapacityThatNobodySetIsTheSizeOfThePlace) {
  const auto capacity = [this](std::size_t place) {
    return control().stats().runtime.places.at(place).capacity_bytes;
  };
  EXPECT_EQ(capacity(0), 64 * MiB);
  EXPECT_EQ(capacity(2), 64 * MiB) << "the host node's";
  rig_.runtime().set_capacity(gpu(0), 3 * MiB);
  rig_.runtime().set_capacity(host(0), SIZE_MAX);
  EXPECT_EQ(capacity(0), 3 * MiB);
  EXPECT_EQ(capacity(2), 64 * MiB);
  rig_.runtime().set_capacity(gpu(0), 1024 * MiB);
  EXPECT_EQ(capacity(0), 64 * MiB) << "there is no more";
}

TEST_F(RuntimeControlTest, AMigrateSaysHowManyWholeChunksItWas) {
  std::uint64_t* words = rig_.alloc(3, gpu(0));
  const ControlEvent end = end_of(start(move_of(words, gpu(1))));
  EXPECT_EQ(end.text, "24.0 KiB were requested: 3 whole chunks");
}

TEST_F(RuntimeControlTest, ExplainsAMoveByItsWishAndItsOutcome) {
  std::uint64_t* words = rig_.alloc(2, gpu(0));
  rig_.use(words, 1, 1);
  rig_.step();
  const std::uint64_t second = to_integer(address_of(words)) + chunk;
  const auto lines = control().explain(second, 10);
  ASSERT_FALSE(lines.empty());
  const ControlDecision& line = lines.front();
  EXPECT_EQ(line.address, second);
  EXPECT_EQ(line.from, gpu(0));
  EXPECT_EQ(line.to, gpu(1));
  EXPECT_EQ(line.policy, "counter");
  // A gate if the stream got to one within a millisecond, which a busy computer may not let it.
  EXPECT_TRUE(line.verdict == "moved: by gate" || line.verdict == "moved: by suspension")
      << line.verdict;
  EXPECT_FALSE(line.reason.empty());
  EXPECT_TRUE(line.took);
  // An address inside the first chunk asks for that chunk alone, which has not moved.
  EXPECT_TRUE(control().explain(to_integer(address_of(words)) + 1, 10).empty());
  EXPECT_EQ(control().explain(to_integer(address_of(words)), 10).size(), lines.size());
  EXPECT_EQ(kind_of_error([&] { control().explain(16, 1); }), ErrorKind::unknown_pointer);
  const ControlStats stats = control().stats();
  EXPECT_EQ(stats.scheduler.moves_done, 1u);
  EXPECT_EQ(stats.scheduler.uses, 1u);
  EXPECT_GT(stats.scheduler.tick_time.count(), 0);
  EXPECT_GT(stats.scheduler.prediction_error, 0);
  EXPECT_EQ(stats.runtime.migrations, 1u);
}

TEST_F(RuntimeControlTest, StepsOnlyWhilePausedAndTellsInOrder) {
  EXPECT_EQ(kind_of_error([&] { control().start_step(); }), ErrorKind::invalid_argument);
  control().pause();
  const std::uint64_t ticks = control().status().ticks;
  const std::uint64_t operation = control().start_step();
  EXPECT_EQ(control().status().ticks, ticks + 1);
  EXPECT_TRUE(control().status().paused);
  control().resume();
  control().set_policy("stay_put");
  EXPECT_EQ(control().policy(), "stay_put");
  const auto known = control().known_policies();
  EXPECT_EQ(std::ranges::count(known, "cost_benefit"), 1);
  EXPECT_EQ(kind_of_error([&] { control().set_policy("magic"); }), ErrorKind::invalid_argument);
  std::vector<Kind> kinds;
  for (const ControlEvent& event : events()) kinds.push_back(event.kind);
  EXPECT_EQ(kinds, (std::vector<Kind>{Kind::policy_changed, Kind::paused, Kind::stepped,
                                      Kind::resumed, Kind::policy_changed}));
  EXPECT_EQ(events()[2].operation, operation);
  EXPECT_EQ(events()[4].text, "stay_put: asked for");
}

// More allocations than the migrator takes at a time, and one that is freed meanwhile.
TEST_F(RuntimeControlTest, MovesManyAllocationsInOneOperation) {
  constexpr std::size_t many = 600;
  std::vector<std::uint64_t*> all;
  for (std::size_t i = 0; i < many; ++i) all.push_back(rig_.alloc(1, gpu(0), "many"));
  rig_.step();
  const std::uint64_t operation = start(move_of_tag("many", gpu(1)));
  EXPECT_LE(control().status().moves_queued, 512u);
  for (const std::size_t freed : {many / 2, many - 1}) {  // Submitted, and not yet.
    rig_.runtime().free(all[freed]);
    all[freed] = nullptr;
  }
  const ControlEvent end = end_of(operation);
  EXPECT_EQ(end.operation, operation);
  EXPECT_EQ(end.kind, Kind::operation_done) << end.text;
  for (std::size_t i = 0; i < many; ++i) {
    if (all[i] == nullptr) continue;
    ASSERT_EQ(rig_.place(all[i]), gpu(1)) << i;
  }
}

TEST_F(RuntimeControlTest, ShutsDownWhileItsOperationsGoOn) {
  for (int i = 0; i < 8; ++i) rig_.alloc(8, gpu(0), "all");
  rig_.step();
  control().start_drain(gpu(0));
  start(move_of_tag("all", gpu(1)));
  rig_.runtime().shutdown();
  EXPECT_TRUE(rig_.machine().leaks().empty());
}

}  // namespace
}  // namespace vma
