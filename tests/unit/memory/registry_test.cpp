// Goal: any address is answered with its allocation and slot, at the edges too, beside other
// threads that insert and erase; what was erased is forgotten and its number used again.
#include "base/executor.hpp"
#include "base/units.hpp"
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t granule = 4 * KiB;
constexpr std::uint64_t leaf_bytes = 32768 * granule;  // What one leaf of the table covers.
constexpr Address base{std::uint64_t{1} << 40};

using Found = Registry::Found;

Found found(AllocationId id, std::uint32_t slot) {
  return {id, slot};
}

TEST(Registry, AnswersFirstAndLastByteOfEverySlot) {
  Registry registry(granule);
  const std::uint64_t slot_bytes = 3 * granule, slots = 5;
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
  Registry registry(granule);
  const AllocationId id = registry.insert(base, 9 * granule, 4 * granule, nullptr);
  EXPECT_EQ(registry.find(base + (8 * granule - 1)), found(id, 1));
  EXPECT_EQ(registry.find(base + 8 * granule), found(id, 2));
  EXPECT_EQ(registry.find(base + (9 * granule - 1)), found(id, 2));
  EXPECT_EQ(registry.find(base + 9 * granule), std::nullopt);
}

TEST(Registry, KeepsNeighboursApart) {
  Registry registry(granule);
  const AllocationId first = registry.insert(base, granule, granule, nullptr);
  const AllocationId second = registry.insert(base + granule, 2 * granule, granule, nullptr);
  EXPECT_NE(first, second);
  EXPECT_EQ(registry.find(base + (granule - 1)), found(first, 0));
  EXPECT_EQ(registry.find(base + granule), found(second, 0));
  registry.erase(first);
  EXPECT_EQ(registry.find(base), std::nullopt);
  EXPECT_EQ(registry.find(base + granule), found(second, 0));
  registry.check_invariants();
}

TEST(Registry, CrossesLeavesOfItsTable) {
  Registry registry(granule);
  const Address begin{to_integer(base) + leaf_bytes - granule};
  const std::uint64_t size_bytes = 2 * leaf_bytes + 2 * granule;  // Begins and ends beside two.
  const AllocationId id = registry.insert(begin, size_bytes, leaf_bytes, nullptr);
  EXPECT_EQ(registry.find(begin), found(id, 0));
  EXPECT_EQ(registry.find(begin + leaf_bytes), found(id, 1));
  EXPECT_EQ(registry.find(begin + (size_bytes - 1)), found(id, 2));
  EXPECT_EQ(registry.find(begin + size_bytes), std::nullopt);
  registry.check_invariants();
  registry.erase(id);
  for (std::uint64_t offset = 0; offset < size_bytes; offset += 512 * granule) {
    ASSERT_EQ(registry.find(begin + offset), std::nullopt) << offset;
  }
}

TEST(Registry, AnswersAnyAddressAtAll) {
  Registry registry(granule);
  registry.insert(base, granule, granule, nullptr);
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
  Registry registry(granule);
  const Address begin{(std::uint64_t{1} << 49) - 3 * granule};
  const AllocationId id = registry.insert(begin, 2 * granule, granule, nullptr);
  EXPECT_EQ(registry.find(begin + (2 * granule - 1)), found(id, 1));
  EXPECT_EQ(registry.find(begin + 2 * granule), std::nullopt);
}

TEST(Registry, UsesNumbersAgain) {
  Registry registry(granule);
  const AllocationId first = registry.insert(base, granule, granule, nullptr);
  registry.insert(base + 16 * granule, granule, granule, nullptr);
  EXPECT_EQ(registry.size(), 2u);
  registry.erase(first);
  EXPECT_EQ(registry.size(), 1u);
  EXPECT_EQ(registry.insert(base + 8 * granule, granule, granule, nullptr), first);
  EXPECT_EQ(registry.find(base), std::nullopt);
  EXPECT_EQ(registry.find(base + 8 * granule), found(first, 0));
  registry.check_invariants();
}

TEST(Registry, ErasesOnceAndNothingUnknown) {
  MemoryRig rig;
  const auto allocation = rig.alloc(1, gpu(0));
  Registry registry(granule);
  const AllocationId id = registry.insert(base, granule, granule, allocation);
  EXPECT_EQ(registry.erase(AllocationId{77}), nullptr);
  EXPECT_EQ(registry.erase(id), allocation);
  EXPECT_EQ(registry.erase(id), nullptr);
  EXPECT_EQ(registry.get(id), nullptr);
  EXPECT_EQ(registry.size(), 0u);
}

TEST(Registry, HoldsWhatItAnswers) {
  MemoryRig rig;
  Registry registry(granule);
  const auto allocation = rig.alloc(1, gpu(0));
  const long uses = allocation.use_count();
  const AllocationId id = registry.insert(base, 4 * granule, granule, allocation);
  const auto held = registry.hold(base + 3 * granule);
  EXPECT_EQ(held, allocation);
  EXPECT_EQ(registry.get(id), allocation);
  EXPECT_EQ(registry.all(), std::vector{allocation});
  EXPECT_EQ(registry.hold(base + 4 * granule), nullptr);
  registry.erase(id);
  EXPECT_EQ(registry.hold(base), nullptr);
  EXPECT_EQ(allocation.use_count(), uses + 1) << "only `held` is left";
}

TEST(Registry, IsEmptiedOneByOne) {
  MemoryRig rig;
  Registry registry(granule);
  const auto allocation = rig.alloc(1, gpu(0));
  registry.insert(base, granule, granule, allocation);
  registry.insert(base + granule, granule, granule, allocation);
  EXPECT_EQ(registry.erase_any(), allocation);
  EXPECT_EQ(registry.erase_any(), allocation);
  EXPECT_EQ(registry.erase_any(), nullptr);
  EXPECT_EQ(registry.size(), 0u);
  registry.check_invariants();
}

TEST(RegistryDeathTest, EndsTheProcessWhereTheTableHasAnythingElse) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Registry registry(granule);
  registry.insert(base, 4 * granule, 4 * granule, nullptr);
  registry.check_invariants();
  registry.insert(base + granule, granule, granule, nullptr);  // Amid a slot, against the rules.
  EXPECT_DEATH(registry.check_invariants(), "each granule is in the table");
}

TEST(Registry, FindsBesideInsertAndErase) {
  Registry registry(granule);
  constexpr std::uint64_t slots = 8;
  const AllocationId fixed = registry.insert(base, slots * granule, granule, nullptr);
  const Address changing = base + slots * granule;  // The next granules, in the same leaf.
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> wrong{0}, seen{0};
  ThreadedExecutor executor;
  std::vector<std::unique_ptr<Task>> finders;
  for (int i = 0; i < 2; ++i) {
    finders.push_back(executor.spawn("finder", [&] {
      while (!stop) {
        for (std::uint32_t slot = 0; slot < slots; ++slot) {
          if (registry.find(base + slot * granule) != found(fixed, slot)) ++wrong;
          const auto answer = registry.find(changing + slot * granule);
          if (!answer) continue;
          ++seen;
          if (answer->id == fixed || answer->slot != slot / 2) ++wrong;
        }
      }
    }));
  }
  for (int round = 0; round < 2000 || seen == 0; ++round) {
    const AllocationId id = registry.insert(changing, slots * granule, 2 * granule, nullptr);
    if (round % 7 == 0) registry.check_invariants();
    registry.erase(id);
  }
  stop = true;
  for (const auto& finder : finders) finder->join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(seen, 0u);
}

}  // namespace
}  // namespace vma
