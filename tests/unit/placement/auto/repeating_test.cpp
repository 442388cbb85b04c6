// Goal: once a program repeats itself, its memory is placed and moved by what comes next, and
// otherwise by the other policy. Method: loops of few objects on machines like H200s, where a pass
// over 395 MB takes 0.104 ms at home and 7.596 ms at the host, and a move from or to the host
// 7.515 ms.
#include "placement/auto/auto.hpp"

#include "placement/policies/built_in_policies.hpp"
#include "unit/placement/policies/policy_rig.hpp"

#include <vma/error.hpp>

#include <utility>

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

class RepeatingTest : public testing::Test {
 protected:
  static PolicyRig rig(std::uint64_t chunks) {
    return {repeating_kind(static_kind()),
            PolicyMachine::h200(1, chunks * large_chunk, 1000 * large_chunk)};
  }
  /// Uses each of ten chunks ten times in 100 ms, and pauses.
  static std::size_t step(PolicyRig& rig, ChunkId first, Time pause = 1900ms) {
    std::size_t moves = 0;
    moves += rig.run(100ms, [&] {
      for (std::size_t i = 0; i < 10; ++i)
        rig.use_and_apply(next(first, i), gpu_place(0), large_pass);
    });
    return moves + rig.run(pause);
  }
  const PlaceId gpu_ = gpu_place(0), host_ = gpu_place(1);
};

// Three objects, room for two: C is fetched before its second use, A before its third, although
// each is then the one that was not used for longest.
void expect_fetches_in_turn(PolicyRig& rig, ChunkId a, ChunkId b, ChunkId c, auto&& step) {
  for (const ChunkId each : {a, b, c, a}) EXPECT_EQ(step(rig, each), 0u);
  const std::vector<std::size_t> at_gpu(10, 0);
  EXPECT_GT(step(rig, b), 0u);
  EXPECT_EQ(rig.places_of(c, 10), at_gpu);
  for (int i = 0; i < 3; ++i) {
    step(rig, c);
    EXPECT_EQ(rig.places_of(a, 10), at_gpu);
    step(rig, a);
    EXPECT_EQ(rig.places_of(b, 10), at_gpu);
    step(rig, b);
    EXPECT_EQ(rig.places_of(c, 10), at_gpu);
  }
}

TEST_F(RepeatingTest, FetchesWhatIsNextInPlaceOfWhatIsFurthest) {
  PolicyRig rig = this->rig(20);
  const ChunkId a = rig.allocate(large_chunks(10), gpu_), b = rig.allocate(large_chunks(10), gpu_),
                c = rig.allocate(large_chunks(10), host_);
  expect_fetches_in_turn(rig, a, b, c, [](auto&&... what) { return step(what...); });
}

// Each chunk is a request like the ones before it, as the layers of a model are. That is no reason
// to take them for memory that is allocated anew.
TEST_F(RepeatingTest, LearnsWhenEqualLayersAreUsed) {
  PolicyRig rig = this->rig(20);
  std::vector<ChunkId> layers;
  for (int i = 0; i < 30; ++i) layers.push_back(rig.request(large_chunk, large_chunk, gpu_));
  ASSERT_EQ(layers[29], next(layers[0], 29));
  expect_fetches_in_turn(rig, layers[0], layers[10], layers[20],
                         [](auto&&... what) { return step(what...); });
}

// As above, but the stalls of a move are found to take a second when C has been predicted, and
// later not to. Pauses are short, so that the GPU counts as working.
TEST_F(RepeatingTest, FetchesNothingWhileThatCostsTooMuch) {
  PolicyRig rig = this->rig(20);
  const ChunkId a = rig.allocate(large_chunks(10), gpu_), b = rig.allocate(large_chunks(10), gpu_),
                c = rig.allocate(large_chunks(10), host_);
  for (const ChunkId each : {a, b, c, a}) EXPECT_EQ(step(rig, each, 800ms), 0u);
  Time& stall = rig.tables().costs().stall_fixed(host_, gpu_);
  const Time before = std::exchange(stall, 1s);
  EXPECT_EQ(step(rig, b, 800ms) + step(rig, c, 800ms) + step(rig, a, 800ms), 0u);
  stall = before;
  EXPECT_GT(step(rig, b, 800ms), 0u);
}

// Chance makes some predictions come true, but not for long.
TEST_F(RepeatingTest, MovesLittleInALoopThatChangesItsOrderAllTheTime) {
  PolicyRig rig = this->rig(20);
  const ChunkId a = rig.allocate(large_chunks(10), gpu_), b = rig.allocate(large_chunks(10), gpu_),
                c = rig.allocate(large_chunks(10), host_);
  std::size_t moves = 0;
  Time pause = 500ms;
  for (const ChunkId each : {a, c, b, b, a, c, a, b, c, c, b, a, a, c, b}) {
    moves += step(rig, each, pause);
    pause = pause > 4s ? 300ms : 2 * pause;
  }
  EXPECT_LE(moves, 40u) << "of 150 uses by chunks";
}

/// An iteration allocates one chunk for its whole length, then eight pairs that are used a lot.
/// Returns where the first chunk was.
PlaceId iterate(PolicyRig& rig, std::vector<PlaceId>& pairs) {
  const PlaceId gpu = gpu_place(0);
  const ChunkId kept = rig.request(large_chunk, large_chunk, gpu, "kept");
  const PlaceId at = rig.at(kept);
  rig.use(kept, gpu, large_pass);
  rig.run(20ms);
  for (std::size_t i = 0; i < 8; ++i) {
    const ChunkId pair = rig.request((2 + i % 2) * small_chunk, 4 * small_chunk, gpu, "pair");
    pairs.push_back(rig.at(pair));
    rig.run(50ms, [&] { rig.use(pair, gpu, 3 * small_pass); });
    rig.free(pair);
  }
  rig.use(kept, gpu, large_pass);
  rig.run(20ms);
  rig.free(kept);
  return at;
}

// There is room for the kept chunk or for a pair. The pairs are used more.
TEST_F(RepeatingTest, WhatLivesLongLeavesTheRoomToWhatIsUsedMore) {
  PolicyRig rig(repeating_kind(static_kind()),
                PolicyMachine::h200(1, large_chunk + small_chunk, 1000 * large_chunk));
  std::vector<PlaceId> pairs;
  EXPECT_EQ(iterate(rig, pairs), gpu_) << "first touch";
  EXPECT_EQ(pairs, std::vector<PlaceId>(8, host_));
  iterate(rig, pairs);
  iterate(rig, pairs);
  pairs.clear();
  EXPECT_EQ(iterate(rig, pairs), host_);
  EXPECT_EQ(pairs, std::vector<PlaceId>(8, gpu_));
}

TEST_F(RepeatingTest, LeavesOtherMemoryToTheOtherPolicy) {
  PolicyRig rig(repeating_kind(counter_kind()), PolicyMachine::h200(2, 100 * large_chunk, 0));
  const ChunkId chunk = rig.allocate({large_chunk}, gpu_place(1));
  std::size_t moves = 0;
  for (int i = 0; i < 200 && moves == 0; ++i) moves += rig.use_and_apply(chunk, gpu_, large_pass);
  EXPECT_EQ(moves, 1u);
}

// A fiftieth of a pass every 100 ms is soon predicted, and saves 0.15 ms, too little for a
// prefetch. All together they are worth the move.
TEST_F(RepeatingTest, LetsTheOtherPolicyBringWhatIsUsedOftenToItsUser) {
  PolicyRig rig(repeating_kind(counter_kind()),
                PolicyMachine::h200(1, 100 * large_chunk, 1000 * large_chunk));
  const ChunkId first = rig.allocate(large_chunks(4), host_);
  std::size_t moves = 0;
  for (int i = 0; i < 400; ++i) {
    for (std::size_t chunk = 0; chunk < 4; ++chunk)
      moves += rig.use_and_apply(next(first, chunk), gpu_, large_pass / 50);
    moves += rig.run(100ms);
  }
  EXPECT_EQ(moves, 4u);
  EXPECT_EQ(rig.places_of(first, 4), std::vector<std::size_t>(4, 0));
}

/// Brings chunks to the first GPU for which those at the same position of `victims` make room.
class Swapper : public Policy {
 public:
  struct Swap {
    ChunkId chunk{}, victim{};
  };
  explicit Swapper(const std::vector<Swap>& swaps) : swaps_(swaps) {}
  void on_tick(const Snapshot&, Plan& plan) override {
    for (const Swap& swap : swaps_) {
      plan.evict(swap.victim, gpu_place(2), "it makes room");
      plan.move(swap.chunk, gpu_place(0), 1, "it is told to");
    }
  }

 private:
  const std::vector<Swap>& swaps_;
};

// All uses are predicted. Of the two chunks at the first GPU, the second one uses the one, which
// is not needed where it lies.
TEST_F(RepeatingTest, WhatLiesAwayFromItsUserMakesRoom) {
  std::vector<Swapper::Swap> swaps;
  const PolicyKind swapper{"swapper", "this test", {}, [&](const PolicyValues&) {
                             return std::make_unique<Swapper>(swaps);
                           }};
  PolicyRig rig(repeating_kind(swapper),
                PolicyMachine::h200(2, 2 * large_chunk, 1000 * large_chunk));
  const ChunkId first = rig.allocate(large_chunks(2), gpu_),
                away = rig.allocate({large_chunk}, gpu_place(1));
  const auto use = [&](std::size_t chunk, std::size_t gpu) {
    rig.use_and_apply(next(first, chunk), gpu_place(gpu), large_pass / 50);
  };
  for (int i = 0; i < 50; ++i) {
    use(0, 0);
    use(1, 1);
    use(2, 0);
    rig.run(100ms);
  }
  swaps = {{away, first}};
  EXPECT_EQ(proposals(rig.tick()), "") << "the victim lies at its user";
  swaps = {{away, next(first)}};
  EXPECT_EQ(proposals(rig.tick()), "chunk 1 to 2, chunk 2 to 0");
}

TEST(RepeatingText, NamesTheInnerPolicyAndItsParameters) {
  EXPECT_NE(make_policy("repeating+cost_benefit:margin=2,repeat_apart=10ms"), nullptr);
  EXPECT_NE(make_policy("guarded+repeating+cost_benefit"), nullptr);
  EXPECT_THROW(make_policy("repeating+repeating+static"), Error);
  EXPECT_THROW(make_policy("repeating+static:margin=2"), Error);
}

}  // namespace
}  // namespace v1
}  // namespace vma
