// Goal: every address is found with its allocation and slot, also at the edges and while other
// threads insert and erase; erased ranges are gone and their numbers are reused.
#include "base/executor.hpp"
#include "base/units.hpp"
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t small_granule = 4 * KiB;
// The range that one leaf of the table covers.
constexpr std::uint64_t leaf_bytes = 32768 * small_granule;
constexpr Address base{std::uint64_t{1} << 40};

using Found = Registry::Found;

Found found(AllocationId id, std::uint32_t slot) {
  return {id, slot};
}

TEST(Registry, AnswersFirstAndLastByteOfEverySlot) {
  Registry registry(small_granule);
  const std::uint64_t slot_bytes = 3 * small_granule, slots = 5;
  const AllocationId id = registry.insert(base, slots * slot_bytes, slot_bytes, nullptr);
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    EXPECT_EQ(registry.find(base + slot * slot_bytes), found(id, slot));
    EXPECT_EQ(registry.find(base + ((slot + 1) * slot_bytes - 1)), found(id, slot));
  }
  EXPECT_EQ(registry.find(Address{to_integer(base) - 1}), std::nullopt);
  EXPECT_EQ(registry.find(base + slots * slot_bytes), std::nullopt);
  registry.check_invariants();
}

TEST(Registry, CountsAShorterTailAsTheLastSlot) {
  Registry registry(small_granule);
  const AllocationId id = registry.insert(base, 9 * small_granule, 4 * small_granule, nullptr);
  EXPECT_EQ(registry.find(base + (8 * small_granule - 1)), found(id, 1));
  EXPECT_EQ(registry.find(base + 8 * small_granule), found(id, 2));
  EXPECT_EQ(registry.find(base + (9 * small_granule - 1)), found(id, 2));
  EXPECT_EQ(registry.find(base + 9 * small_granule), std::nullopt);
}

TEST(Registry, KeepsNeighboursApart) {
  Registry registry(small_granule);
  const AllocationId first = registry.insert(base, small_granule, small_granule, nullptr);
  const AllocationId second =
      registry.insert(base + small_granule, 2 * small_granule, small_granule, nullptr);
  EXPECT_NE(first, second);
  EXPECT_EQ(registry.find(base + (small_granule - 1)), found(first, 0));
  EXPECT_EQ(registry.find(base + small_granule), found(second, 0));
  registry.erase(first);
  EXPECT_EQ(registry.find(base), std::nullopt);
  EXPECT_EQ(registry.find(base + small_granule), found(second, 0));
  registry.check_invariants();
}

TEST(Registry, CrossesLeavesOfItsTable) {
  Registry registry(small_granule);
  const Address begin{to_integer(base) + leaf_bytes - small_granule};
  const std::uint64_t size_bytes =
      2 * leaf_bytes + 2 * small_granule;  // Two whole leaves, and a granule on either side.
  const AllocationId id = registry.insert(begin, size_bytes, leaf_bytes, nullptr);
  EXPECT_EQ(registry.find(begin), found(id, 0));
  EXPECT_EQ(registry.find(begin + leaf_bytes), found(id, 1));
  EXPECT_EQ(registry.find(begin + (size_bytes - 1)), found(id, 2));
  EXPECT_EQ(registry.find(begin + size_bytes), std::nullopt);
  registry.check_invariants();
  registry.erase(id);
  for (std::uint64_t offset = 0; offset < size_bytes; offset += 512 * small_granule) {
    ASSERT_EQ(registry.find(begin + offset), std::nullopt) << offset;
  }
}

TEST(Registry, AnswersAnyAddressAtAll) {
  Registry registry(small_granule);
  registry.insert(base, small_granule, small_granule, nullptr);
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t power = std::uint64_t{1} << bit;
    if (bit != 40) {
      EXPECT_EQ(registry.find(Address{power}), std::nullopt) << bit;
    }
    EXPECT_EQ(registry.find(Address{~power}), std::nullopt) << bit;
  }
  EXPECT_EQ(registry.find(Address{0}), std::nullopt);
  EXPECT_EQ(registry.find(Address{UINT64_MAX}), std::nullopt);
}

TEST(Registry, TakesTheHighestUserAddresses) {
  Registry registry(small_granule);
  const Address begin{(std::uint64_t{1} << 49) - 3 * small_granule};
  const AllocationId id = registry.insert(begin, 2 * small_granule, small_granule, nullptr);
  EXPECT_EQ(registry.find(begin + (2 * small_granule - 1)), found(id, 1));
  EXPECT_EQ(registry.find(begin + 2 * small_granule), std::nullopt);
}

TEST(Registry, UsesNumbersAgain) {
  Registry registry(small_granule);
  const AllocationId first = registry.insert(base, small_granule, small_granule, nullptr);
  registry.insert(base + 16 * small_granule, small_granule, small_granule, nullptr);
  EXPECT_EQ(registry.size(), 2u);
  registry.erase(first);
  EXPECT_EQ(registry.size(), 1u);
  EXPECT_EQ(registry.insert(base + 8 * small_granule, small_granule, small_granule, nullptr),
            first);
  EXPECT_EQ(registry.find(base), std::nullopt);
  EXPECT_EQ(registry.find(base + 8 * small_granule), found(first, 0));
  registry.check_invariants();
}

TEST(Registry, ErasesOnceAndNothingUnknown) {
  MemoryRig rig;
  const auto allocation = rig.alloc(1, gpu(0));
  Registry registry(small_granule);
  const AllocationId id = registry.insert(base, small_granule, small_granule, allocation);
  EXPECT_EQ(registry.erase(AllocationId{77}), nullptr);
  EXPECT_EQ(registry.erase(id), allocation);
  EXPECT_EQ(registry.erase(id), nullptr);
  EXPECT_EQ(registry.get(id), nullptr);
  EXPECT_EQ(registry.size(), 0u);
}

TEST(Registry, HoldsWhatItAnswers) {
  MemoryRig rig;
  Registry registry(small_granule);
  const auto allocation = rig.alloc(1, gpu(0));
  const long uses = allocation.use_count();
  const AllocationId id = registry.insert(base, 4 * small_granule, small_granule, allocation);
  const auto held = registry.hold(base + 3 * small_granule);
  EXPECT_EQ(held, allocation);
  EXPECT_EQ(registry.get(id), allocation);
  EXPECT_EQ(registry.all(), std::vector{allocation});
  EXPECT_EQ(registry.hold(base + 4 * small_granule), nullptr);
  registry.erase(id);
  EXPECT_EQ(registry.hold(base), nullptr);
  EXPECT_EQ(allocation.use_count(), uses + 1) << "only `held` is left";
}

TEST(Registry, IsEmptiedOneByOne) {
  MemoryRig rig;
  Registry registry(small_granule);
  const auto allocation = rig.alloc(1, gpu(0));
  registry.insert(base, small_granule, small_granule, allocation);
  registry.insert(base + small_granule, small_granule, small_granule, allocation);
  EXPECT_EQ(registry.erase_any(), allocation);
  EXPECT_EQ(registry.erase_any(), allocation);
  EXPECT_EQ(registry.erase_any(), nullptr);
  EXPECT_EQ(registry.size(), 0u);
  registry.check_invariants();
}

TEST(RegistryDeathTest, EndsTheProcessWhereTheTableHasAnythingElse) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Registry registry(small_granule);
  registry.insert(base, 4 * small_granule, 4 * small_granule, nullptr);
  registry.check_invariants();
  registry.insert(base + small_granule, small_granule, small_granule,
                  nullptr);  // Inside another slot, which is not allowed.
  EXPECT_DEATH(registry.check_invariants(), "each granule is in the table");
}

TEST(Registry, FindsBesideInsertAndErase) {
  Registry registry(small_granule);
  constexpr std::uint64_t slots = 8;
  const AllocationId fixed = registry.insert(base, slots * small_granule, small_granule, nullptr);
  const Address changing = base + slots * small_granule;  // The next granules, in the same leaf.
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> wrong{0}, seen{0};
  ThreadedExecutor executor;
  std::vector<std::unique_ptr<Task>> finders;
  for (int i = 0; i < 2; ++i) {
    finders.push_back(executor.spawn("finder", [&] {
      while (!stop) {
        for (std::uint32_t slot = 0; slot < slots; ++slot) {
          if (registry.find(base + slot * small_granule) != found(fixed, slot)) ++wrong;
          const auto answer = registry.find(changing + slot * small_granule);
          if (!answer) continue;
          ++seen;
          if (answer->id == fixed || answer->slot != slot / 2) ++wrong;
        }
      }
    }));
  }
  for (int round = 0; round < 2000 || seen == 0; ++round) {
    const AllocationId id =
        registry.insert(changing, slots * small_granule, 2 * small_granule, nullptr);
    if (round % 7 == 0) registry.check_invariants();
    registry.erase(id);
  }
  stop = true;
  for (const auto& finder : finders) finder->join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(seen, 0u);
}

/// Several ranges use one id in turn: a reader gets the bounds of one of them, or none.
TEST(Registry, TellsWholeBoundsBesideInsertAndErase) {
  Registry registry(small_granule);
  const auto range = [](std::uint64_t number) {
    return Registry::Bounds{base + 16 * number * small_granule, number * small_granule,
                            number * small_granule};
  };
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> wrong{0}, seen{0};
  ThreadedExecutor executor;
  const auto teller = executor.spawn("teller", [&] {
    while (!stop) {
      const auto told = registry.bounds(AllocationId{0});
      if (!told) continue;
      ++seen;
      const Registry::Bounds whole = range(told->size_bytes / small_granule);
      if (told->begin != whole.begin || told->slot_bytes != whole.slot_bytes) ++wrong;
    }
  });
  for (std::uint64_t round = 0; round < 20000 || seen == 0; ++round) {
    const Registry::Bounds bounds = range(1 + round % 9);
    const AllocationId id =
        registry.insert(bounds.begin, bounds.size_bytes, bounds.slot_bytes, nullptr);
    EXPECT_EQ(id, AllocationId{0});
    if (round % 64 == 0) std::this_thread::yield();
    registry.erase(id);
    EXPECT_FALSE(registry.bounds(id));
  }
  stop = true;
  teller->join();
  EXPECT_EQ(wrong, 0u);
}

/// More ranges than the first blocks of bounds hold.
TEST(Registry, TellsTheBoundsOfManyRanges) {
  Registry registry(small_granule);
  constexpr std::uint64_t ranges = 5000;
  for (std::uint64_t i = 0; i < ranges; ++i) {
    registry.insert(base + i * small_granule, small_granule, small_granule, nullptr);
  }
  for (std::uint64_t i = 0; i < ranges; ++i) {
    const Address begin = base + i * small_granule;
    const auto found = registry.find(begin);
    ASSERT_TRUE(found);
    const auto bounds = registry.bounds(found->id);
    ASSERT_TRUE(bounds);
    EXPECT_EQ(bounds->begin, begin);
    EXPECT_EQ(bounds->size_bytes, small_granule);
  }
  EXPECT_FALSE(registry.bounds(AllocationId{ranges}));
  EXPECT_FALSE(registry.bounds(AllocationId{~std::uint32_t{0}}));
}

}  // namespace
}  // namespace vma
