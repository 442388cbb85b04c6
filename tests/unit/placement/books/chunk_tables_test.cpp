// Goal: the books match what they were told. Method: averages compared with their closed form, sums
// with a recount through the public snapshot; random operations with `check_invariants` after each.
#include "placement/books/chunk_tables.hpp"

#include "base/units.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <vector>

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

constexpr PlaceId gpu_0{0}, gpu_1{1}, host_0{2};

ChunkTables two_gpus(const HeatLimits& limits = {}) {
  std::vector<PlaceState> places{{gpu(0), GiB}, {gpu(1), GiB}, {host(0), 4 * GiB}};
  MachineCosts costs(2, 3);
  for (const PlaceId device : {gpu_0, gpu_1}) {
    for (const PlaceId at : {gpu_0, gpu_1, host_0}) costs.access_rate(device, at) = 1e9;
  }
  return ChunkTables(std::move(places), std::move(costs), limits);
}

ChunkId add(ChunkTables& tables, std::uint32_t allocation, std::size_t chunks, PlaceId at = gpu_0) {
  return tables.add(allocation, "kv", std::vector<ChunkTables::NewChunk>(chunks, {MiB, at}));
}

ChunkId plus(ChunkId chunk, std::uint32_t by) {
  return ChunkId{static_cast<std::uint32_t>(chunk) + by};
}

TEST(ChunkTables, RowsOfAnAllocationAreNeighbours) {
  ChunkTables tables = two_gpus();
  const Snapshot snapshot(tables);
  tables.set_now(5s);
  add(tables, 7, 2);
  const ChunkId first = add(tables, 8, 3, host_0);
  EXPECT_EQ(index(first), 2u);
  EXPECT_EQ(snapshot.first_of(plus(first, 2)), first);
  const ChunkRow& row = snapshot.chunk(plus(first, 2));
  EXPECT_EQ(row.allocation, 8u);
  EXPECT_EQ(row.slot, 2u);
  EXPECT_EQ(row.born, Time(5s));
  EXPECT_EQ(snapshot.tag(first), "kv");
  EXPECT_EQ(snapshot.place(host_0).used_bytes, 3 * MiB);
  EXPECT_EQ(tables.size(), 5u);
}

TEST(ChunkTables, ADroppedChunkFillsNoPlaceAndHasNoHeat) {
  ChunkTables tables = two_gpus();
  const Snapshot snapshot(tables);
  const ChunkId first = add(tables, 7, 2);
  tables.used(first, gpu_1, 1e6, 0);
  tables.clear_changed();
  tables.set_dropped(first, true);
  tables.check_invariants();
  EXPECT_EQ(snapshot.place(gpu_0).used_bytes, MiB);
  EXPECT_EQ(snapshot.total_heat(first).short_term(), 0);
  EXPECT_EQ(snapshot.demand(gpu_1, gpu_0), 0);
  EXPECT_EQ(snapshot.changed().size(), 1u);
  tables.used(first, gpu_1, 1e6, 0);
  EXPECT_EQ(snapshot.total_heat(first).short_term(), 0) << "nothing can have used it";
  tables.moved(first, gpu_1);  // The slot will come back at another place.
  EXPECT_EQ(snapshot.place(gpu_1).used_bytes, 0u);
  tables.set_dropped(first, false);
  EXPECT_EQ(snapshot.place(gpu_1).used_bytes, MiB);
  tables.check_invariants();
  tables.set_dropped(first, true);
  tables.remove(first, 2);
  EXPECT_EQ(snapshot.place(gpu_0).used_bytes + snapshot.place(gpu_1).used_bytes, 0u);
  tables.check_invariants();
}

// Four allocations of 2: rows 0-1, 2-3, 4-5, 6-7. Freeing the second and third gives one run of
// four.
TEST(ChunkTables, FreedRowsAreUsedAgainInRuns) {
  ChunkTables tables = two_gpus();
  for (std::uint32_t i = 0; i < 4; ++i) add(tables, i, 2);
  tables.remove(ChunkId{2}, 2);
  tables.remove(ChunkId{4}, 2);
  EXPECT_EQ(index(add(tables, 9, 5)), 8u) << "no run is long enough";
  EXPECT_EQ(index(add(tables, 10, 3)), 2u);
  EXPECT_EQ(index(add(tables, 11, 1)), 5u) << "what the run had left";
  tables.remove(ChunkId{5}, 1);
  tables.remove(ChunkId{2}, 3);
  EXPECT_EQ(index(add(tables, 12, 4)), 2u) << "neighbours are joined again";
  tables.check_invariants();
}

// One use of B bytes makes an average of B ln2 / h, which halves after every half-life h.
TEST(ChunkTables, HeatFadesByItsHalfLives) {
  ChunkTables tables = two_gpus();
  const Snapshot snapshot(tables);
  const ChunkId chunk = add(tables, 1, 1);
  tables.set_now(1s);
  tables.used(chunk, gpu_1, 4e6, 0);
  tables.set_now(3s);
  tables.used(chunk, gpu_1, 0, 2e6);
  tables.set_now(4s);
  const Heat heat = snapshot.heat(chunk, gpu_1);
  const double ln2 = std::numbers::ln2;
  EXPECT_NEAR(heat.read_short, 4e6 * ln2 * std::exp2(-3), 1);
  EXPECT_NEAR(heat.write_short, 2e6 * ln2 * std::exp2(-1), 1);
  EXPECT_NEAR(heat.read_long, 4e6 * ln2 / 10 * std::exp2(-.3), 1);
  EXPECT_NEAR(heat.write_long, 2e6 * ln2 / 10 * std::exp2(-.1), 1);
  EXPECT_DOUBLE_EQ(snapshot.heat(chunk, gpu_0).long_term(), 0);
  EXPECT_NEAR(snapshot.access_load_short(chunk, host_0), heat.short_term() / 1e9, 1e-9);
}

// With a steady rate the averages approach that rate.
TEST(ChunkTables, HeatOfASteadyUseIsItsRate) {
  ChunkTables tables = two_gpus();
  const ChunkId chunk = add(tables, 1, 1);
  for (int ms = 1; ms <= 100000; ++ms) {
    tables.set_now(std::chrono::milliseconds(ms));
    tables.used(chunk, gpu_0, 1e6, 0);
  }
  const Heat heat = Snapshot(tables).heat(chunk, gpu_0);
  EXPECT_NEAR(heat.read_short, 1e9, 2e6);
  EXPECT_NEAR(heat.read_long, 1e9, 2e6);
}

double recounted(const Snapshot& snapshot, PlaceId device, PlaceId at) {
  double sum = 0;
  for (std::uint32_t i = 0; i < snapshot.chunks().size(); ++i) {
    if (snapshot.chunks()[i].bytes > 0 && snapshot.chunks()[i].at == at) {
      sum += snapshot.heat(ChunkId{i}, device).short_term();
    }
  }
  return sum;
}

// Exact to the last bit: a decision based on the bound must be the same as with the sum itself.
TEST(ChunkTables, DemandIsNeverMoreThanWhatItWasAtTheLastUses) {
  ChunkTables tables = two_gpus();
  const Snapshot snapshot(tables);
  const ChunkId chunk = add(tables, 7, 1);
  EXPECT_EQ(snapshot.demand_most(chunk), 0);
  const auto demand = [&] {
    double sum = 0;
    snapshot.for_each_user(chunk, [&](PlaceId, const Heat& heat) { sum += heat.short_term(); });
    return sum;
  };
  std::mt19937 random(7);
  Time now{0};
  for (int step = 0; step < 1000; ++step) {
    tables.set_now(now += Time(random() % 300'000'000));
    EXPECT_GE(snapshot.demand_most(chunk), demand());
    tables.used(chunk, gpu_0, random() % 100'000, random() % 100'000);
    if (step % 3 > 0) continue;
    tables.used(chunk, gpu_1, random() % 100'000, random() % 1000);
    EXPECT_EQ(snapshot.demand_most(chunk), demand());
  }
}

TEST(ChunkTables, DemandGoesWithTheChunk) {
  ChunkTables tables = two_gpus();
  const Snapshot snapshot(tables);
  const ChunkId first = add(tables, 1, 2);
  tables.used(first, gpu_1, 3e6, 0);
  tables.used(plus(first, 1), gpu_1, 1e6, 0);
  tables.set_now(2s);
  tables.moved(first, host_0);
  EXPECT_NEAR(snapshot.demand(gpu_1, host_0), 3e6 * std::numbers::ln2 / 4, 1);
  EXPECT_NEAR(snapshot.demand(gpu_1, gpu_0), 1e6 * std::numbers::ln2 / 4, 1);
  tables.set_now(3s);
  EXPECT_NEAR(snapshot.place(host_0).demand_bytes_s, 3e6 * std::numbers::ln2 / 8, 1);
  tables.remove(first, 2);
  EXPECT_NEAR(snapshot.demand(gpu_1, host_0), 0, 1);
}

TEST(ChunkTables, MovesShowInPlacesAndRows) {
  ChunkTables tables = two_gpus();
  const Snapshot snapshot(tables);
  const ChunkId chunk = add(tables, 1, 1);
  tables.expect(host_0, MiB);
  EXPECT_EQ(snapshot.place(host_0).used_bytes, MiB);
  tables.set_now(4s);
  tables.expect_no_more(host_0, MiB);
  tables.moved(chunk, host_0);
  EXPECT_EQ(snapshot.place(host_0).used_bytes, MiB);
  EXPECT_EQ(snapshot.place(gpu_0).free_bytes(), GiB);
  EXPECT_EQ(snapshot.chunk(chunk).last_move, Time(4s));
  EXPECT_EQ(snapshot.chunk(chunk).generation, 1u);
  tables.moved(chunk, host_0);
  EXPECT_EQ(snapshot.chunk(chunk).generation, 1u) << "it lay there";
}

TEST(ChunkTables, EachChangedChunkIsListedOnce) {
  ChunkTables tables = two_gpus();
  const Snapshot snapshot(tables);
  const ChunkId first = add(tables, 1, 3);
  tables.used(first, gpu_0, 1, 0);
  EXPECT_EQ(snapshot.changed().size(), 3u);
  tables.clear_changed();
  EXPECT_TRUE(snapshot.changed().empty());
  tables.used(first, gpu_0, 1, 0);
  tables.moved(first, gpu_1);
  tables.hinted(plus(first, 1), Hint{});
  ASSERT_EQ(snapshot.changed().size(), 2u);
  EXPECT_EQ(snapshot.changed()[1], plus(first, 1));
  tables.remove(first, 3);
  add(tables, 2, 3);
  tables.check_invariants();
  EXPECT_EQ(snapshot.changed().size(), 3u) << "the numbers are others' now, and listed once";
}

TEST(ChunkTables, HintsRunOutAndTheLastOneCounts) {
  ChunkTables tables = two_gpus();
  const Snapshot snapshot(tables);
  const ChunkId chunk = add(tables, 1, 1);
  EXPECT_EQ(snapshot.hint(chunk), nullptr);
  tables.hinted(chunk, {.device = gpu(0), .next_use = {}, .passes = 1, .until = 3s});
  tables.hinted(chunk, {.device = gpu(1), .next_use = {}, .passes = 2, .until = 5s});
  tables.set_now(4s);
  ASSERT_NE(snapshot.hint(chunk), nullptr);
  EXPECT_EQ(snapshot.hint(chunk)->device, gpu(1));
  tables.set_now(5s);
  EXPECT_EQ(snapshot.hint(chunk), nullptr);
  tables.hinted(chunk, Hint{});
  EXPECT_NE(snapshot.hint(chunk), nullptr);
  tables.forget_hint(chunk);
  EXPECT_EQ(snapshot.hint(chunk), nullptr);
}

TEST(ChunkTables, UsesWithoutACellAreCounted) {
  HeatLimits limits;
  limits.cells_max = 2;
  ChunkTables tables = two_gpus(limits);
  const ChunkId first = add(tables, 1, 2);
  tables.used(first, gpu_0, 1e6, 0);
  tables.used(first, gpu_1, 1e6, 0);
  tables.used(plus(first, 1), gpu_0, 1e6, 0);
  tables.used(first, gpu_0, 1e6, 0);
  EXPECT_EQ(tables.uses_lost(), 1u);
  EXPECT_DOUBLE_EQ(Snapshot(tables).total_heat(plus(first, 1)).short_term(), 0);
  tables.remove(first, 2);
  const ChunkId fresh = add(tables, 2, 1);
  tables.used(fresh, gpu_1, 1e6, 0);
  EXPECT_EQ(tables.uses_lost(), 1u) << "cells of what is gone are used again";
}

TEST(ChunkTables, ACopyIsIndependent) {
  ChunkTables tables = two_gpus();
  const ChunkId chunk = add(tables, 1, 1);
  tables.used(chunk, gpu_1, 1e6, 0);
  const ChunkTables copy = tables;
  tables.moved(chunk, host_0);
  tables.used(chunk, gpu_0, 1e6, 0);
  tables.clear_changed();
  tables.set_now(9s);
  const Snapshot snapshot(copy);
  EXPECT_EQ(snapshot.chunk(chunk).at, gpu_0);
  EXPECT_EQ(snapshot.now(), Time(0s));
  EXPECT_EQ(snapshot.changed().size(), 1u);
  EXPECT_DOUBLE_EQ(snapshot.heat(chunk, gpu_0).short_term(), 0);
  copy.check_invariants();
}

/// Random operations. Keeps allocations as pairs of first row and count.
class RandomBooks {
 public:
  explicit RandomBooks(std::uint32_t seed) : random_(seed) {}

  void step() {
    const std::uint32_t what = random_() % 8;
    if (what == 0 || allocations_.empty()) return grow();
    const auto [first, count] = allocations_[random_() % allocations_.size()];
    const ChunkId chunk = plus(first, random_() % count);
    const PlaceId device{static_cast<std::uint8_t>(random_() % 2)};
    if (what == 1) return shrink();
    if (what == 2) return tables_.moved(chunk, PlaceId{static_cast<std::uint8_t>(random_() % 3)});
    if (what == 3) return tables_.hinted(chunk, Hint{});
    if (what == 4) return tables_.clear_changed();
    if (what == 5)
      return tables_.set_now(tables_.now() + std::chrono::milliseconds(random_() % 900));
    tables_.used(chunk, device, random_() % 1000000, random_() % 1000);
  }
  void check() const {
    tables_.check_invariants();
    const Snapshot snapshot(tables_);
    std::size_t chunks = 0;
    for (const auto& [first, count] : allocations_) chunks += count;
    ASSERT_EQ(tables_.size(), chunks);
    for (const PlaceId device : {gpu_0, gpu_1}) {
      for (const PlaceId at : {gpu_0, gpu_1, host_0}) {
        const double sum = recounted(snapshot, device, at);
        ASSERT_NEAR(snapshot.demand(device, at), sum, 1 + sum * 1e-4);
      }
    }
  }

 private:
  void grow() {
    const std::size_t count = 1 + random_() % 6;
    allocations_.emplace_back(add(tables_, ++last_, count), count);
  }
  void shrink() {
    const std::size_t which = random_() % allocations_.size();
    tables_.remove(allocations_[which].first, allocations_[which].second);
    allocations_.erase(allocations_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  std::mt19937 random_;
  ChunkTables tables_ = two_gpus();
  std::vector<std::pair<ChunkId, std::size_t>> allocations_;
  std::uint32_t last_ = 0;
};

TEST(ChunkTables, StayTrueThroughRandomOperations) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    RandomBooks books(seed);
    for (int i = 0; i < 500; ++i) {
      books.step();
      ASSERT_NO_FATAL_FAILURE(books.check());
    }
  }
}

}  // namespace
}  // namespace v1
}  // namespace vma
