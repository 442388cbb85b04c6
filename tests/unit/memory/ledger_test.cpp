// Goal: bytes are booked within the capacity and never twice; leaks are counted.
#include "memory/ledger.hpp"

#include "base/executor.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <vector>

namespace vma {
namespace {

using Use = Ledger::Use;

TEST(Ledger, BooksUpToTheCapacityAndNoByteMore) {
  Ledger ledger;
  ledger.open(gpu(0), 100);
  EXPECT_TRUE(ledger.claim(gpu(0), 60, Use::allocated));
  EXPECT_TRUE(ledger.claim(gpu(0), 30, Use::own));
  EXPECT_FALSE(ledger.claim(gpu(0), 11, Use::cached));
  EXPECT_EQ(ledger.account(gpu(0)).total(), 90u) << "a refusal books nothing";
  EXPECT_TRUE(ledger.claim(gpu(0), 10, Use::cached));
  EXPECT_FALSE(ledger.claim(gpu(0), 1, Use::allocated));
  ledger.unclaim(gpu(0), 30, Use::own);
  EXPECT_TRUE(ledger.claim(gpu(0), 30, Use::allocated));
}

TEST(Ledger, RefusesMoreThanTheCapacityAtOnce) {
  Ledger ledger;
  ledger.open(gpu(0), 100);
  EXPECT_FALSE(ledger.claim(gpu(0), 101, Use::allocated));
  EXPECT_FALSE(ledger.claim(gpu(0), UINT64_MAX, Use::allocated));
  EXPECT_TRUE(ledger.claim(gpu(0), 100, Use::allocated));
  EXPECT_FALSE(ledger.claim(gpu(0), UINT64_MAX, Use::allocated)) << "sums must not wrap";
}

TEST(Ledger, HasNoLimitWhereNoneIsSet) {
  Ledger ledger;
  ledger.open(host(0), UINT64_MAX);
  EXPECT_TRUE(ledger.claim(host(0), std::uint64_t{1} << 60, Use::allocated));
  EXPECT_TRUE(ledger.claim(host(0), std::uint64_t{1} << 60, Use::cached));
}

TEST(Ledger, KeepsPlacesApart) {
  Ledger ledger;
  ledger.open(gpu(0), 10);
  ledger.open(gpu(1), 10);
  EXPECT_TRUE(ledger.claim(gpu(0), 10, Use::allocated));
  EXPECT_TRUE(ledger.claim(gpu(1), 10, Use::allocated));
  EXPECT_EQ(ledger.account(gpu(0)).allocated_bytes, 10u);
}

TEST(Ledger, ShiftsUseAndKeepsTheSum) {
  Ledger ledger;
  ledger.open(gpu(0), 100);
  ledger.claim(gpu(0), 80, Use::allocated);
  ledger.shift(gpu(0), 50, Use::allocated, Use::cached);
  const Ledger::Account account = ledger.account(gpu(0));
  EXPECT_EQ(account.allocated_bytes, 30u);
  EXPECT_EQ(account.cached_bytes, 50u);
  EXPECT_EQ(account.total(), 80u);
  EXPECT_EQ(account.capacity_bytes, 100u);
}

TEST(LedgerDeathTest, EndsTheProcessWhenMoreIsGivenBackThanWasClaimed) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Ledger ledger;
  ledger.open(gpu(0), 100);
  ledger.claim(gpu(0), 10, Use::allocated);
  EXPECT_DEATH(ledger.unclaim(gpu(0), 11, Use::allocated), "only claimed bytes are returned");
  EXPECT_DEATH(ledger.unclaim(gpu(0), 1, Use::cached), "only claimed bytes are returned");
  EXPECT_DEATH(ledger.shift(gpu(0), 1, Use::own, Use::cached), "only claimed bytes change");
}

TEST(Ledger, CountsLeaksForLongerThanItLives) {
  auto ledger = std::make_unique<Ledger>();
  const auto count = ledger->leak_count();
  EXPECT_EQ(ledger->leaks(), 0u);
  ledger->leaked("a test of leaks, on purpose");
  ledger->leaked("another, on purpose");
  EXPECT_EQ(ledger->leaks(), 2u);
  ledger.reset();
  EXPECT_EQ(*count, 2u);
}

TEST(Ledger, BooksLeakedBytesAsHeld) {
  Ledger ledger;
  ledger.open(gpu(0), 100);
  ledger.claim(gpu(0), 60, Use::allocated);
  ledger.leak_bytes(gpu(0), 20);
  ledger.unclaim(gpu(0), 20, Use::allocated);
  EXPECT_EQ(ledger.account(gpu(0)).leaked_bytes, 20u);
  EXPECT_EQ(ledger.account(gpu(0)).total(), 60u);
  EXPECT_FALSE(ledger.claim(gpu(0), 41, Use::allocated)) << "they are not free";
  ledger.shift(gpu(0), 5, Use::allocated, Use::leaked);
  EXPECT_EQ(ledger.account(gpu(0)).leaked_bytes, 25u);
}

TEST(Ledger, CountsWhatCannotBeUndone) {
  Ledger ledger;
  int undone = 0;
  EXPECT_TRUE(ledger.undo("a thing", [&] { ++undone; }));
  EXPECT_EQ(ledger.leaks(), 0u);
  EXPECT_FALSE(ledger.undo("a thing", [] { throw std::runtime_error("a test, on purpose"); }));
  EXPECT_EQ(ledger.leaks(), 1u);
  EXPECT_EQ(undone, 1);
}

TEST(Ledger, NeverOverbooksBetweenThreads) {
  Ledger ledger;
  ledger.open(gpu(0), 1000);
  std::atomic<std::uint64_t> had{0};
  ThreadedExecutor executor;
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < 4; ++i) {
    tasks.push_back(executor.spawn("claimer", [&] {
      for (int round = 0; round < 500; ++round) had += ledger.claim(gpu(0), 1, Use::allocated);
    }));
  }
  for (const auto& task : tasks) task->join();
  EXPECT_EQ(had, 1000u);
  EXPECT_EQ(ledger.account(gpu(0)).allocated_bytes, 1000u);
}

}  // namespace
}  // namespace vma
