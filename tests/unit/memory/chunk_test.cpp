// Goal: a chunk or a reservation is created completely or not at all and is released once; what the
// driver refuses to release is counted. Method: makes each call fail in turn.
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

TEST(Reservation, MovesAndIsGivenBackOnce) {
  MemoryRig rig;
  const std::vector<std::string> before = rig.machine().leaks();
  rig.forget_calls();
  {
    Reservation first(rig.driver(), rig.memory().chunks().ledger(), 4 * rig.page());
    const Address begin = first.begin();
    EXPECT_EQ(first.size_bytes(), 4 * rig.page());
    Reservation second(std::move(first));
    EXPECT_EQ(second.begin(), begin);
    Reservation third;
    third = std::move(second);
    EXPECT_EQ(third.begin(), begin);
    third = Reservation(rig.driver(), rig.memory().chunks().ledger(), rig.page());
    EXPECT_EQ(rig.calls(Call::unreserve), 1);
  }
  EXPECT_EQ(rig.calls(Call::reserve), 2);
  EXPECT_EQ(rig.calls(Call::unreserve), 2);
  EXPECT_EQ(rig.machine().leaks(), before);
}

TEST(Reservation, CountsWhatIsNotTakenBack) {
  MemoryRig rig;
  Ledger& ledger = rig.memory().chunks().ledger();
  {
    const Reservation lost(rig.driver(), ledger, rig.page());
    rig.fail({Call::unreserve}, {0});
  }
  EXPECT_EQ(ledger.leaks(), 1u);
  Reservation abandoned(rig.driver(), ledger, rig.page());
  rig.forget_calls();
  abandoned.abandon();
  EXPECT_EQ(ledger.leaks(), 1u) << "the caller counts it";
  abandoned = Reservation();
  EXPECT_EQ(rig.calls(Call::unreserve), 0) << "it was let go of";
}

TEST(Chunk, ShowsItsBytesToEveryReaderThroughItsStaging) {
  MemoryRig rig("test-islands");
  const Chunk chunk = rig.chunk(gpu(1), 2);
  EXPECT_EQ(chunk.at(), gpu(1));
  EXPECT_EQ(chunk.size_bytes(), 2 * rig.page());
  EXPECT_EQ(rig.machine().pointer_info(chunk.staging()).at, gpu(1));
  EXPECT_EQ(rig.machine().access(chunk.staging(), gpu(0)), Access::read_write);
  EXPECT_EQ(rig.machine().access(chunk.staging(), gpu(1)), Access::read_write);
  EXPECT_EQ(rig.machine().access(chunk.staging(), gpu(2)), Access::none) << "another island";
  EXPECT_EQ(rig.machine().access(chunk.staging(), host(0)), Access::none);
  rig.unclaim(chunk);
}

TEST(Chunk, IsHadWholeOrNotAtAll) {
  MemoryRig rig;
  const std::vector<std::string> before = rig.machine().leaks();
  Ledger& ledger = rig.memory().chunks().ledger();
  for (const Call call : {Call::create, Call::reserve, Call::map, Call::grant}) {
    SCOPED_TRACE(to_string(call));
    rig.fail({call}, {0});
    const Error error = expect_error(ErrorKind::out_of_memory, [&] {
      Chunk(rig.driver(), ledger, gpu(0), rig.page(), rig.topology().readers(gpu(0)));
    });
    EXPECT_EQ(error.call(), to_string(call));
    EXPECT_EQ(rig.machine().leaks(), before);
  }
  EXPECT_EQ(ledger.leaks(), 0u);
}

TEST(Chunk, IsReleasedOnceHoweverItMoved) {
  MemoryRig rig;
  const std::vector<std::string> before = rig.machine().leaks();
  rig.forget_calls();
  {
    Chunk first = rig.chunk(gpu(0), 1);
    rig.unclaim(first);
    const ChunkHandle handle = first.handle();
    const Chunk second(std::move(first));
    EXPECT_FALSE(first);  // NOLINT: what is left of it is the claim.
    EXPECT_EQ(second.handle(), handle);
    Chunk third = rig.chunk(gpu(0), 1);
    rig.unclaim(third);
    third = Chunk();
    EXPECT_EQ(rig.calls(Call::release), 1);
  }
  EXPECT_EQ(rig.calls(Call::release), 2);
  EXPECT_EQ(rig.machine().leaks(), before);
}

TEST(Chunk, CountsWhatTheDriverDoesNotTakeBack) {
  for (const Call call : {Call::unmap, Call::release, Call::unreserve}) {
    SCOPED_TRACE(to_string(call));
    MemoryRig rig;
    Chunk chunk = rig.chunk(gpu(0), 1);
    rig.unclaim(chunk);
    rig.fail({call}, {0});
    rig.forget_calls();
    chunk = Chunk();
    EXPECT_EQ(rig.memory().chunks().ledger().leaks(), 1u);
    EXPECT_EQ(rig.calls(Call::release), call == Call::release ? 0 : 1);
    EXPECT_FALSE(rig.machine().leaks().empty());
    const bool bytes_are_gone = call != Call::unreserve;
    EXPECT_EQ(rig.account(gpu(0)).leaked_bytes, bytes_are_gone ? rig.page() : 0);
  }
}

TEST(Chunk, CountsBytesOnceThatAreHeldTwice) {
  MemoryRig rig;
  Chunk chunk = rig.chunk(gpu(0), 2);
  rig.unclaim(chunk);
  rig.fail({Call::unmap, Call::release}, {0, 1});
  EXPECT_FALSE(chunk.release());
  EXPECT_FALSE(chunk);
  EXPECT_EQ(rig.memory().chunks().ledger().leaks(), 2u);
  EXPECT_EQ(rig.account(gpu(0)).leaked_bytes, 2 * rig.page());
}

TEST(Chunk, StaysBusyHoweverItMoves) {
  MemoryRig rig;
  Chunk chunk = rig.memory().chunks().obtain(gpu(0), rig.page(), ChunkStore::Turn::take);
  EXPECT_FALSE(chunk.busy());
  const Chunk& seen = chunk;
  seen.mark_busy();
  Chunk moved = std::move(chunk);
  EXPECT_TRUE(moved.busy());
  rig.memory().chunks().retire(std::move(moved));
  EXPECT_EQ(rig.cached(gpu(0)), 0u) << "it is never used again";
  EXPECT_EQ(rig.account(gpu(0)).leaked_bytes, rig.page());
  EXPECT_EQ(rig.memory().chunks().ledger().leaks(), 1u);
  rig.memory().check_invariants();
}

}  // namespace
}  // namespace vma
