// Goal: memory for addresses of the caller appears there with its bytes, moves like other memory
// while it is mapped, keeps its bytes when it is not, and is always booked. Method: addresses
// reserved at the machine itself; FaultDriver fails calls.
#include "unit/memory/memory_rig.hpp"

#include "backings/backings.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <thread>
#include <vector>

namespace vma {
namespace {

/// A machine, its memory and the backings of it.
struct Rig : MemoryRig {
  Backings backings{memory()};
  void check_invariants() { memory().check_invariants(backings.unmapped_bytes()); }
};

/// Addresses that a program has reserved, and gives back.
class ProgramRange {
 public:
  ProgramRange(Rig& rig, std::uint64_t pages)
      : rig_(rig),
        size_bytes_(pages * rig.page()),
        begin_(rig.machine().reserve(size_bytes_, rig.page())) {}
  ~ProgramRange() { rig_.machine().unreserve(begin_, size_bytes_); }  // Throws if it is in use.
  ProgramRange(const ProgramRange&) = delete;
  ProgramRange& operator=(const ProgramRange&) = delete;

  Address page(std::uint64_t number) const { return begin_ + number * rig_.page(); }

 private:
  Rig& rig_;
  const std::uint64_t size_bytes_;
  const Address begin_;
};

std::shared_ptr<Backing> create(Rig& rig, std::uint64_t pages, Place at = gpu(0)) {
  return rig.backings.create(pages * rig.page(), at, {}, "test");
}

std::shared_ptr<Allocation> mapped(Rig& rig, Backing& backing, Address begin) {
  rig.backings.map(backing, begin);
  return rig.memory().require(to_pointer(begin), "test");
}

TEST(Backings, HaveExactlyTheSizeThatWasAskedFor) {
  for (const std::uint64_t pages : {1, 3, 5, 7, 128, 131, 300, 1000}) {
    const Geometry geometry = plan_exact_geometry(pages * page_bytes, gpu(0), page_bytes);
    EXPECT_EQ(geometry.size_bytes(), pages * page_bytes);
    EXPECT_EQ(geometry.slots == 1, pages <= 128) << pages;
  }
  Rig rig;
  expect_error(ErrorKind::invalid_argument,
               [&] { rig.backings.create(page_bytes + 1, gpu(0), {}, ""); });
  expect_error(ErrorKind::invalid_argument,
               [&] { rig.backings.create(page_bytes, gpu(7), {}, ""); });
  EXPECT_EQ(rig.backings.size_bytes(), 0u);
}

TEST(Backings, AppearWhereTheyAreMappedAndNowhereElse) {
  Rig rig;
  const ProgramRange range(rig, 400);
  Backings& backings = rig.backings;
  const auto small = create(rig, 2);
  const auto large = create(rig, 300);
  rig.check_invariants();  // Unmapped memory is booked, too.
  EXPECT_EQ(backings.size_bytes(), 302 * rig.page());
  const auto first = mapped(rig, *small, range.page(5));
  const auto second = mapped(rig, *large, range.page(7));
  rig.expect_shown(*first);
  rig.expect_shown(*second);
  EXPECT_EQ(first->size_bytes(), 2 * rig.page());
  EXPECT_EQ(first->tag, "test");
  expect_error(ErrorKind::invalid_argument, [&] { backings.map(*small, range.page(0)); });
  expect_error(ErrorKind::invalid_argument, [&] { backings.release(*small); });
  backings.unmap(*small);
  expect_error(ErrorKind::unknown_pointer,
               [&] { rig.memory().require(to_pointer(range.page(5)), "test"); });
  expect_error(ErrorKind::invalid_argument, [&] { backings.unmap(*small); });
  rig.check_invariants();
  const auto again = mapped(rig, *small, range.page(3));
  rig.expect_shown(*again);
  backings.unmap(*small);
  backings.unmap(*large);
  backings.release(*small);
  backings.release(*large);
  EXPECT_EQ(backings.size_bytes(), 0u);
  expect_error(ErrorKind::invalid_argument, [&] { backings.map(*small, range.page(0)); });
  rig.memory().chunks().slow_calls().await_empty();
  rig.check_invariants();
}

TEST(Backings, ReuseReleasedMemoryButNeverTheAddressesOfTheProgram) {
  Rig rig;
  const ProgramRange range(rig, 4);
  const auto backing = create(rig, 4);
  const auto shown = mapped(rig, *backing, range.page(0));
  rig.forget_calls();
  rig.backings.unmap(*backing);
  rig.backings.release(*backing);
  EXPECT_EQ(rig.calls(Call::release), 0);
  EXPECT_EQ(rig.cached(gpu(0)), 4 * rig.page());
  const auto next = create(rig, 4);
  EXPECT_EQ(rig.calls(Call::create), 0);
  rig.backings.release(*next);
  // Also if it is freed as an allocation.
  const auto freed = create(rig, 4);
  rig.free(mapped(rig, *freed, range.page(0)));
  const auto other = rig.alloc(4, gpu(0), 4);
  EXPECT_NE(other->begin(), range.page(0));
}

TEST(Backings, KeepTheirBytesWhileTheyAreNotMappedAnywhere) {
  Rig rig;
  const ProgramRange range(rig, 8);
  const auto backing = create(rig, 3);
  const BoundStream stream = rig.new_stream(0);
  const auto first = mapped(rig, *backing, range.page(0));
  rig.driver().fill(stream, range.page(0), std::byte{0x5a}, 3 * rig.page());
  rig.machine().synchronize_context(rig.context(0));
  rig.backings.unmap(*backing);
  mapped(rig, *backing, range.page(4));
  std::vector<std::byte> now(3 * rig.page());
  rig.driver().copy(stream, address_of(now.data()), range.page(4), now.size());
  rig.machine().synchronize_context(rig.context(0));
  EXPECT_EQ(now, std::vector<std::byte>(now.size(), std::byte{0x5a}));
  rig.backings.unmap(*backing);
}

TEST(Backings, AFailedMapLeavesThemUnmapped) {
  for (const Call call : {Call::map, Call::grant}) {
    Rig rig;
    const ProgramRange range(rig, 300);
    const auto backing = create(rig, 300);
    for (int n = 0;; ++n) {
      rig.fail({call}, {n});
      bool failed = false;
      try {
        rig.backings.map(*backing, range.page(0));
      } catch (const Error&) {
        failed = true;
      }
      rig.fail_nothing();
      if (!failed) break;
      rig.check_invariants();
      ASSERT_LT(n, 100);
    }
    rig.expect_shown(*rig.memory().require(to_pointer(range.page(0)), "test"));
    rig.backings.unmap(*backing);
  }
}

TEST(Backings, AreNotMappedOverOtherMemoryOrBetweenPages) {
  Rig rig;
  const ProgramRange range(rig, 4);
  const auto one = create(rig, 2);
  const auto other = create(rig, 2);
  mapped(rig, *one, range.page(1));
  EXPECT_THROW(rig.backings.map(*other, range.page(2)), Error);
  const Error refused = expect_error(ErrorKind::invalid_argument,
                                     [&] { rig.backings.map(*other, range.page(0) + 512); });
  EXPECT_TRUE(says(refused, "is not a multiple of")) << refused.what();
  rig.expect_shown(*rig.memory().require(to_pointer(range.page(1)), "test"));
  rig.backings.unmap(*one);
  rig.expect_shown(*mapped(rig, *other, range.page(2)));
  rig.backings.unmap(*other);
}

TEST(Backings, AChunkThatFailedWorkMayStillTouchIsReplaced) {
  Rig rig;
  const ProgramRange range(rig, 2);
  const auto backing = create(rig, 2);
  mapped(rig, *backing, range.page(0))->chunk(0).mark_busy();
  rig.backings.unmap(*backing);
  const auto again = mapped(rig, *backing, range.page(0));
  EXPECT_FALSE(again->chunk(0).busy());
  rig.expect_shown(*again);
  rig.backings.unmap(*backing);
  rig.backings.release(*backing);
}

TEST(Backings, KeepTheExportTypesThatTheyWereCreatedWith) {
  Rig rig;
  const ProgramRange range(rig, 2);
  ExportTypes needs;
  needs.descriptor = true;
  const auto backing = rig.backings.create(2 * rig.page(), gpu(0), needs, "test");
  const auto shown = mapped(rig, *backing, range.page(0));
  EXPECT_TRUE(shown->created_with(needs));
  EXPECT_EQ(shown->export_needs, needs) << "what a move creates has them, too";
  rig.backings.unmap(*backing);
  rig.backings.release(*backing);
}

TEST(Backings, SharedOnesStayInPlaceAndAreNotReused) {
  Rig rig;
  const ProgramRange range(rig, 300);
  Backings& backings = rig.backings;
  const auto backing = create(rig, 2);
  const auto shown = mapped(rig, *backing, range.page(0));
  EXPECT_TRUE(shown->may_move());
  backings.share(*backing);
  EXPECT_FALSE(shown->may_move());
  backings.unmap(*backing);
  EXPECT_FALSE(mapped(rig, *backing, range.page(2))->may_move());
  backings.unmap(*backing);
  backings.release(*backing);
  EXPECT_EQ(rig.cached(gpu(0)), 0u);
  const auto several = create(rig, 300);
  expect_error(ErrorKind::unsupported, [&] { backings.share(*several); });
  rig.memory().chunks().slow_calls().await_empty();
  rig.check_invariants();
}

TEST(Backings, SharedBeforeTheyAreMappedStayInPlaceAndAreNotReused) {
  Rig rig;
  const ProgramRange range(rig, 4);
  Backings& backings = rig.backings;
  for (const bool is_mapped_later : {false, true}) {
    const auto backing = create(rig, 2);
    backings.share(*backing);
    if (is_mapped_later) {
      EXPECT_FALSE(mapped(rig, *backing, range.page(0))->may_move());
      backings.unmap(*backing);
    }
    backings.release(*backing);  // The other process may still use it.
    rig.memory().chunks().slow_calls().await_empty();
    EXPECT_EQ(rig.cached(gpu(0)), 0u) << is_mapped_later;
  }
  rig.check_invariants();
}

TEST(Backings, ThoseThatHaveMovedAreNotShared) {
  Rig rig;
  const ProgramRange range(rig, 2);
  const auto backing = create(rig, 2);
  const auto shown = mapped(rig, *backing, range.page(0));
  {
    const MutexLock lock(shown->operations());
    rig.memory().chunks().retire(shown->drop(0));
    Chunk elsewhere = rig.chunk(gpu(1), 2);
    shown->restore(0, {&elsewhere, 1}, [&](Address begin, std::uint64_t size_bytes) {
      rig.memory().driver().grant(begin, size_bytes, shown->accessors(gpu(1), rig.topology()));
    });
  }
  expect_error(ErrorKind::busy, [&] { rig.backings.share(*backing); });
  EXPECT_TRUE(shown->may_move());
  rig.backings.unmap(*backing);
  expect_error(ErrorKind::busy, [&] { rig.backings.share(*backing); });
  rig.backings.release(*backing);
  rig.memory().chunks().slow_calls().await_empty();
  EXPECT_EQ(rig.cached(gpu(1)), 2 * rig.page());
}

TEST(Backings, ThoseThatAreSharedHaveNoCleanCopies) {
  Rig rig;
  const ProgramRange range(rig, 2);
  const auto backing = create(rig, 2);
  const auto shown = mapped(rig, *backing, range.page(0));
  {
    const MutexLock lock(shown->operations());
    shown->set_read_only(true, rig.topology());
  }
  ChunkStore& chunks = rig.memory().chunks();
  const std::uint64_t epoch = shown->writable_epoch();
  chunks.keep_copy(*shown, 0, epoch, rig.chunk(host(0), 2));
  ASSERT_TRUE(chunks.copies().has(shown->begin(), 0, host(0), epoch));
  rig.backings.share(*backing);  // Whoever knows it may write to it.
  EXPECT_FALSE(chunks.copies().has(shown->begin(), 0, host(0), epoch));
  {
    const MutexLock lock(shown->operations());
    shown->set_read_only(false, rig.topology());
  }
  rig.backings.unmap(*backing);
}

TEST(Backings, RefuseWhatTheirStateDoesNotAllow) {
  Rig rig;
  const ProgramRange range(rig, 8);
  Backings& backings = rig.backings;
  const auto backing = create(rig, 2);
  expect_error(ErrorKind::invalid_argument, [&] { backings.unmap(*backing); });
  mapped(rig, *backing, range.page(0));
  expect_error(ErrorKind::invalid_argument, [&] { backings.map(*backing, range.page(4)); });
  expect_error(ErrorKind::invalid_argument, [&] { backings.release(*backing); });
  rig.expect_shown(*rig.memory().require(to_pointer(range.page(0)), "test"));
  EXPECT_EQ(backings.size_bytes(), 2 * rig.page());
  backings.unmap(*backing);
  EXPECT_EQ(backings.unmapped_bytes(), (std::map<Place, std::uint64_t>{{gpu(0), 2 * rig.page()}}));
  backings.release(*backing);
  expect_error(ErrorKind::invalid_argument, [&] { backings.map(*backing, range.page(0)); });
  EXPECT_EQ(backings.size_bytes(), 0u);
  EXPECT_TRUE(backings.unmapped_bytes().empty());
}

TEST(Backings, AreCalledByTheirTagAndLeaveNothingBehindAtTheEnd) {
  Rig rig;
  const ProgramRange range(rig, 4);
  const auto backing = create(rig, 2);
  EXPECT_EQ(mapped(rig, *backing, range.page(0))->tag, "test");
  rig.backings.unmap(*backing);
  rig.backings.release();
  rig.memory().chunks().slow_calls().await_empty();
  EXPECT_TRUE(rig.backings.unmapped_bytes().empty());
  rig.check_invariants();
}

TEST(Backings, AreNotListedWithoutRoom) {
  Rig rig;
  rig.fail({Call::create}, {0, 1, 2, 3});
  EXPECT_THROW(create(rig, 2), Error);
  rig.fail_nothing();
  EXPECT_EQ(rig.backings.size_bytes(), 0u);
  rig.check_invariants();
}

TEST(Backings, AnUnmapWaitsForTheMoveAndIsRefusedByAPin) {
  Rig rig;
  const ProgramRange range(rig, 2);
  const auto backing = create(rig, 2);
  const auto shown = mapped(rig, *backing, range.page(0));
  {
    const MutexLock lock(shown->operations());
    shown->pin();
  }
  expect_error(ErrorKind::pinned, [&] { rig.backings.unmap(*backing); });
  shown->unpin();
  std::thread unmapping;
  {
    const MoveClaim move = MoveClaim::take(shown);
    unmapping = std::thread([&] { rig.backings.unmap(*backing); });
    EXPECT_TRUE(comes_true([&] { return shown->being_freed.load(); }));
    rig.expect_shown(*shown);
    EXPECT_NO_THROW(rig.memory().require(to_pointer(range.page(0)), "test"));
  }
  unmapping.join();
  expect_error(ErrorKind::unknown_pointer,
               [&] { rig.memory().require(to_pointer(range.page(0)), "test"); });
}

}  // namespace
}  // namespace vma
