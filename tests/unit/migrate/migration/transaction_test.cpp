// Goal: whichever call fails, the move of a chunk leaves the slot with its source or its target,
// complete and granted to all. Only if neither can be shown is the slot poisoned, with its bytes
// saved. The other chunk returns to the cache, or is kept aside if work may still touch it.
#include "migrate/migration/transaction.hpp"

#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <set>
#include <thread>

namespace vma {
namespace {

using State = Transaction::State;

class TransactionTest : public testing::Test {
 protected:
  TransactionTest() : allocation_(rig_.filled(4, gpu(0), 2, seed_)) {
    rig_.engine().prepare(gpu(0), gpu(1), 1, CopyUnder::gate);
    begin();
  }
  ~TransactionTest() override {
    rig_.fail_nothing();
    move_.reset();
    rig_.memory().check_invariants();
  }

  void begin() { move_.emplace(rig_.memory(), rig_.engine(), *allocation_, 1, gpu(1)); }
  void start_copy() {
    move_->take_target(ChunkStore::Turn::take);
    move_->start_copy(CopyUnder::gate);
  }
  void copy() {
    start_copy();
    move_->finish_copy();
  }
  /// Checks that the slot is at `at` and that everybody sees its bytes.
  void expect_whole(Place at) {
    EXPECT_EQ(allocation_->place(1), at);
    rig_.expect_shown(*allocation_);
    EXPECT_EQ(rig_.wrong(*allocation_, seed_), 0u);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(rig_.wrong_for(i, *allocation_, seed_), 0u) << i;
  }

  const std::uint64_t seed_ = 5'000;
  MoveRig rig_;
  std::shared_ptr<Allocation> allocation_;
  std::optional<Transaction> move_;
  Phases phases_;
};

TEST_F(TransactionTest, GoesFromPlannedToSwitched) {
  EXPECT_EQ(move_->state(), State::planned);
  EXPECT_EQ(move_->from(), gpu(0));
  EXPECT_EQ(move_->size_bytes(), 2 * rig_.page());
  EXPECT_FALSE(move_->take_cached_target()) << "the cache is empty";
  EXPECT_EQ(move_->state(), State::planned);
  move_->take_target(ChunkStore::Turn::take);
  EXPECT_EQ(move_->state(), State::ready);
  move_->start_copy(CopyUnder::gate);
  EXPECT_EQ(move_->state(), State::copying);
  EXPECT_TRUE(move_->copy_done_by(never));
  move_->finish_copy();
  EXPECT_EQ(move_->state(), State::copied);
  expect_whole(gpu(0));
  move_->switch_slot(phases_);
  EXPECT_EQ(move_->state(), State::switched);
  expect_whole(gpu(1));
  EXPECT_EQ(allocation_->generation(1), 1u);
  EXPECT_EQ(allocation_->generation(0), 0u);
  EXPECT_GT(phases_.unmap.count(), 0);
  EXPECT_GT(phases_.map.count(), 0);
  EXPECT_GT(phases_.grant.count(), 0);
  EXPECT_GE(move_->dark(), phases_.unmap + phases_.map + phases_.grant);
  EXPECT_EQ(rig_.cached(gpu(0)), 0u);
  EXPECT_FALSE(move_->give_source_up({}, {}));
  EXPECT_EQ(rig_.cached(gpu(0)), 2 * rig_.page());
}

TEST_F(TransactionTest, UsesACachedTarget) {
  rig_.memory().chunks().reserve(gpu(1), 2 * rig_.page(), 2 * rig_.page());
  rig_.forget_calls();
  EXPECT_TRUE(move_->take_cached_target());
  EXPECT_TRUE(rig_.trace().empty());
}

TEST_F(TransactionTest, GivesTheTargetBackWhereverItEnds) {
  for (int steps = 1; steps <= 3; ++steps) {
    SCOPED_TRACE(steps);
    begin();
    move_->take_target(ChunkStore::Turn::take);
    if (steps > 1) move_->start_copy(CopyUnder::gate);
    if (steps > 2) move_->finish_copy();
    EXPECT_EQ(rig_.cached(gpu(1)), 0u);
    move_.reset();
    EXPECT_EQ(rig_.cached(gpu(1)), 2 * rig_.page());
    expect_whole(gpu(0));
    rig_.memory().chunks().trim(gpu(1));
  }
}

TEST_F(TransactionTest, StaysPlannedWhereNoTargetCanBeHad) {
  rig_.fail({Call::create}, {0, 1});
  expect_error(ErrorKind::out_of_memory, [&] { move_->take_target(ChunkStore::Turn::take); });
  EXPECT_EQ(move_->state(), State::planned);
  rig_.fail_nothing();
  copy();
  move_->switch_slot(phases_);
  expect_whole(gpu(1));
}

TEST_F(TransactionTest, StaysReadyWhereTheCopyIsRefused) {
  move_->take_target(ChunkStore::Turn::take);
  rig_.fail({Call::copy}, {0});
  expect_error(ErrorKind::driver_failure, [&] { move_->start_copy(CopyUnder::gate); });
  EXPECT_EQ(move_->state(), State::ready);
  rig_.fail_nothing();
  move_->start_copy(CopyUnder::gate);
  move_->finish_copy();
}

TEST_F(TransactionTest, KeepsATargetAsideThatMayStillBeWritten) {
  move_->take_target(ChunkStore::Turn::take);
  move_->start_copy(CopyUnder::gate);
  rig_.fail({Call::wait_event}, {0});
  expect_error(ErrorKind::driver_failure, [&] { move_->finish_copy(); });
  EXPECT_EQ(move_->state(), State::stayed);
  rig_.fail_nothing();
  move_.reset();
  EXPECT_EQ(rig_.cached(gpu(1)), 0u) << "nobody else may have it";
  EXPECT_EQ(rig_.memory().chunks().ledger().leaks(), 1u);
  expect_whole(gpu(0));
}

TEST_F(TransactionTest, KeepsASourceAsideThatMayStillBeRead) {
  move_->take_target(ChunkStore::Turn::take);
  move_->plan_again("on purpose");
  copy();
  move_->switch_slot(phases_);
  expect_whole(gpu(1));
  EXPECT_FALSE(move_->give_source_up({}, {}));
  move_.reset();
  EXPECT_EQ(rig_.cached(gpu(0)), 0u) << "nobody else may have it";
  EXPECT_EQ(rig_.memory().chunks().ledger().leaks(), 2u);
}

TEST_F(TransactionTest, KeepsTheMemoryOfAChunkAsideWhoseTargetIsAbandoned) {
  move_->take_target(ChunkStore::Turn::take);
  move_->abandon_target("on purpose");
  EXPECT_EQ(move_->state(), State::stayed);
  EXPECT_TRUE(move_->source().busy());
  expect_whole(gpu(0));
}

TEST_F(TransactionTest, StaysWhenTheSlotCannotBeUnmapped) {
  copy();
  rig_.fail({Call::unmap}, {0});
  expect_error(ErrorKind::driver_failure, [&] { move_->switch_slot(phases_); });
  EXPECT_EQ(move_->state(), State::stayed);
  expect_whole(gpu(0));
}

TEST_F(TransactionTest, GivesUpThePageTablesReserveInTheDark) {
  for (const Call call : {Call::map, Call::grant}) {
    SCOPED_TRACE(to_string(call));
    MoveRig rig;
    const auto allocation = rig.filled(2, gpu(0), 2, 1);
    rig.engine().prepare(gpu(0), gpu(1), 1, CopyUnder::gate);
    Transaction move(rig.memory(), rig.engine(), *allocation, 0, gpu(1));
    move.take_target(ChunkStore::Turn::take);
    move.start_copy(CopyUnder::gate);
    move.finish_copy();
    rig.fail({call}, {0});
    move.switch_slot(phases_);
    EXPECT_EQ(move.state(), State::switched);
    EXPECT_EQ(rig.account(gpu(1)).own_bytes, rig.page());
    rig.fail_nothing();
    rig.expect_shown(*allocation);
    EXPECT_EQ(rig.wrong_for(0, *allocation, 1), 0u);
  }
}

TEST_F(TransactionTest, GoesHomeWhenTheTargetCannotBeShown) {
  const std::pair<Call, std::set<int>> failures[] = {
      {Call::map, {0, 1}},     // The target, before and after the spares are given up.
      {Call::map, {0, 1, 2}},  // And the source once.
      {Call::grant, {0, 1}},   // The same with grants.
      {Call::grant, {0, 1, 2, 3}},
  };
  for (const auto& [call, numbers] : failures) {
    SCOPED_TRACE(testing::Message() << to_string(call) << " " << numbers.size());
    rig_.fail_nothing();
    MoveRig rig;
    const auto allocation = rig.filled(2, gpu(0), 2, 1);
    rig.engine().prepare(gpu(0), gpu(1), 1, CopyUnder::gate);
    {
      Transaction move(rig.memory(), rig.engine(), *allocation, 0, gpu(1));
      move.take_target(ChunkStore::Turn::take);
      move.start_copy(CopyUnder::gate);
      move.finish_copy();
      rig.fail({call}, numbers);
      expect_error(ErrorKind::out_of_memory, [&] { move.switch_slot(phases_); });
      EXPECT_EQ(move.state(), State::stayed);
      rig.fail_nothing();
    }
    EXPECT_EQ(allocation->place(0), gpu(0));
    EXPECT_EQ(allocation->generation(0), 0u);
    rig.expect_shown(*allocation);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(rig.wrong_for(i, *allocation, 1), 0u);
    EXPECT_EQ(rig.cached(gpu(1)), 2 * rig.page()) << "the target is idle";
    rig.memory().check_invariants();
  }
}

TEST_F(TransactionTest, TakesAReadyTargetWithoutTheTurn) {
  rig_.memory().chunks().retire(rig_.chunk(gpu(1), 2));
  std::atomic<bool> taken{false};
  std::thread taker;
  {
    const MutexLock turn(rig_.memory().chunks().slow_calls().turn());  // As a slow creation has it.
    taker = std::thread([&] { taken = move_->take_cached_target(); });
    EXPECT_TRUE(comes_true([&] { return taken.load(); }));
  }
  taker.join();
}

TEST_F(TransactionTest, PoisonsASlotThatCanShowNothingAndSavesItsBytes) {
  copy();
  rig_.fail({Call::map}, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_error(ErrorKind::out_of_memory, [&] { move_->switch_slot(phases_); });
  EXPECT_EQ(move_->state(), State::poisoned);
  rig_.fail_nothing();
  move_.reset();
  EXPECT_TRUE(allocation_->poisoned());
  EXPECT_EQ(rig_.wrong(*allocation_, seed_), 0u) << "through the staging mapping";
  EXPECT_THROW(rig_.machine().pointer_info(allocation_->slot_begin(1)), Error);
  rig_.memory().check_invariants();
  rig_.memory().free(allocation_->begin());
  rig_.memory().chunks().slow_calls().await_empty();
  rig_.memory().check_invariants();
  EXPECT_EQ(rig_.memory().chunks().ledger().leaks(), 0u);
}

TEST_F(TransactionTest, QuarantinesATargetThatTheSlotStillShows) {
  copy();
  rig_.fail({Call::grant, Call::unmap}, {1, 2, 3, 4, 5, 6, 7, 8, 9});  // All but the first unmap.
  expect_error(ErrorKind::out_of_memory, [&] { move_->switch_slot(phases_); });
  EXPECT_EQ(move_->state(), State::poisoned);
  rig_.fail_nothing();
  move_.reset();
  EXPECT_EQ(rig_.cached(gpu(1)), 0u);
  const std::uint64_t leaks = rig_.memory().chunks().ledger().leaks();
  EXPECT_GE(leaks, 1u);
  EXPECT_EQ(rig_.wrong(*allocation_, seed_), 0u);
  rig_.memory().free(allocation_->begin());
  rig_.memory().chunks().slow_calls().await_empty();
  allocation_.reset();
  EXPECT_EQ(rig_.memory().chunks().ledger().leaks(), leaks)
      << "what it shows is unmapped in the end";
}

TEST_F(TransactionTest, GrantsOthersLaterThanTheUsers) {
  copy();
  move_->show_target({DeviceId{0}}, phases_);
  EXPECT_EQ(move_->state(), State::shown);
  const Address begin = allocation_->slot_begin(1);
  EXPECT_EQ(rig_.machine().access(begin, gpu(0)), Access::read_write);
  EXPECT_EQ(rig_.machine().access(begin, gpu(1)), Access::none);
  move_->keep_target();
  move_->grant_rest(phases_);
  EXPECT_EQ(move_->state(), State::switched);
  expect_whole(gpu(1));
}

TEST_F(TransactionTest, GrantsAllIfNoUserReachesTheTarget) {
  copy();
  move_->show_target(Transaction::Gpus{}, phases_);
  move_->keep_target();
  move_->grant_rest(phases_);
  expect_whole(gpu(1));
}

TEST_F(TransactionTest, TakesATargetBackThatIsNotComplete) {
  copy();
  move_->show_target({DeviceId{0}}, phases_);
  move_->take_back(phases_);
  EXPECT_EQ(move_->state(), State::copied);
  expect_whole(gpu(0));
  move_->switch_slot(phases_);
  expect_whole(gpu(1));
}

TEST_F(TransactionTest, IsPoisonedWhenATargetCannotBeTakenBack) {
  copy();
  move_->show_target({DeviceId{0}}, phases_);
  rig_.fail({Call::map}, {0, 1, 2});
  expect_error(ErrorKind::poisoned, [&] { move_->take_back(phases_); });
  EXPECT_EQ(move_->state(), State::poisoned);
  EXPECT_TRUE(allocation_->poisoned());
  rig_.fail_nothing();
  EXPECT_EQ(rig_.wrong(*allocation_, seed_), 0u);
}

TEST_F(TransactionTest, ShowsATargetBesideItsCopy) {
  start_copy();
  move_->show_target(phases_);
  EXPECT_EQ(move_->state(), State::arriving);
  EXPECT_EQ(allocation_->place(1), gpu(0)) << "which has all bytes";
  EXPECT_EQ(rig_.machine().access(allocation_->slot_begin(1), gpu(1)), Access::read_write);
  move_->finish_copy();
  EXPECT_EQ(move_->state(), State::shown);
  move_->keep_target();
  expect_whole(gpu(1));
}

TEST_F(TransactionTest, GoesOnCopyingWhenTheTargetCannotBeShown) {
  start_copy();
  rig_.fail({Call::grant}, {0, 1});
  expect_error(ErrorKind::out_of_memory, [&] { move_->show_target(phases_); });
  EXPECT_EQ(move_->state(), State::copying);
  rig_.fail_nothing();
  expect_whole(gpu(0));
  move_->end_copy(never);
  EXPECT_EQ(move_->state(), State::copied);
  move_->switch_slot(phases_);
  expect_whole(gpu(1));
}

TEST_F(TransactionTest, GoesHomeWhenTheCopyIntoAShownTargetFails) {
  start_copy();
  move_->show_target(phases_);
  rig_.fail({Call::wait_event}, {0});
  expect_error(ErrorKind::driver_failure, [&] { move_->finish_copy(); });
  EXPECT_EQ(move_->state(), State::stayed);
  rig_.fail_nothing();
  move_.reset();
  EXPECT_EQ(rig_.cached(gpu(1)), 0u) << "nobody else may have it";
  EXPECT_EQ(rig_.memory().chunks().ledger().leaks(), 1u);
  expect_whole(gpu(0));
}

TEST_F(TransactionTest, TakesAShownTargetBackWhoseCopyDoesNotEnd) {
  start_copy();
  move_->show_target(phases_);
  rig_.fail({Call::wait_event}, {0});
  move_->end_copy(TimePoint(0));
  EXPECT_EQ(move_->state(), State::stayed);
  EXPECT_TRUE(move_->source().busy());
  rig_.fail_nothing();
  expect_whole(gpu(0));
}

TEST_F(TransactionTest, AwaitsACopyBesideWhichItWasPoisoned) {
  start_copy();
  rig_.fail({Call::map}, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_error(ErrorKind::out_of_memory, [&] { move_->show_target(phases_); });
  EXPECT_EQ(move_->state(), State::poisoned);
  rig_.fail_nothing();
  EXPECT_FALSE(move_->copy_done_by(TimePoint(0)));
  move_->end_copy(never);
  EXPECT_EQ(move_->state(), State::poisoned);
  move_.reset();
  EXPECT_EQ(rig_.cached(gpu(1)), 2 * rig_.page()) << "the target is idle";
  EXPECT_EQ(rig_.wrong(*allocation_, seed_), 0u);
}

TEST_F(TransactionTest, AsksAgainForALateGrant) {
  for (const int failures : {2, 3}) {
    copy();
    move_->show_target({DeviceId{0}}, phases_);
    move_->keep_target();
    std::set<int> numbers;
    for (int i = 0; i < failures; ++i) numbers.insert(i);
    rig_.fail({Call::grant}, numbers);
    if (failures < 3) {
      move_->grant_rest(phases_);
      rig_.fail_nothing();
      expect_whole(gpu(1));
      rig_.move(*allocation_, gpu(0));
      begin();
      continue;
    }
    EXPECT_THROW(move_->grant_rest(phases_), Error);
    rig_.fail_nothing();
    EXPECT_EQ(move_->state(), State::poisoned);
    EXPECT_TRUE(allocation_->poisoned()) << "work on the other GPU would fault";
    EXPECT_EQ(rig_.wrong(*allocation_, seed_), 0u);
  }
}

using TransactionDeathTest = TransactionTest;

TEST_F(TransactionDeathTest, EndsTheProcessRatherThanSwitchWhatIsNotCopied) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(move_->switch_slot(phases_), "a target is shown beside its copy or behind it");
  EXPECT_DEATH(move_->finish_copy(), "a copy is awaited once");
}

}  // namespace
}  // namespace vma
