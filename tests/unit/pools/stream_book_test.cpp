// Goal: what a pool keeps for a stream serves others once the stream has ended, and a stream is
// never taken for another one. Method: a book with streams that come and go.
#include "pools/stream_book.hpp"
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace vma {
namespace {

class StreamBooks : public testing::Test {
 protected:
  const StreamFrees* frees_of(StreamHandle handle, std::uint64_t id) {
    return book.with(handle, id, [](StreamFrees& frees) { return &frees; });
  }
  std::uint64_t close_epoch(StreamHandle handle, std::uint64_t id) {
    return book.with(handle, id, [](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
      return frees.close_epoch();
    });
  }

  MemoryRig rig;
  StreamBook book{rig.driver(), rig.memory().contexts(),
                  [](StreamHandle) { return StreamFrees::Life::lasts; }};
};

TEST_F(StreamBooks, TheStreamsOfThreadsEndWithThem) {
  std::set<const StreamFrees*> used;
  for (int i = 0; i < 20; ++i) {
    std::thread([&] {
      rig.machine().set_current_context(rig.context(0));
      const StreamHandle own{2};
      used.insert(frees_of(own, rig.driver().stream_now(own, 0).id));
    }).join();
  }
  EXPECT_EQ(used.size(), 1u);
}

TEST_F(StreamBooks, WhatAThreadRemembersOfAStreamThatLeftIsNotUsed) {
  const BoundStream first = rig.new_stream(0), second = rig.new_stream(0);
  const std::uint64_t id = rig.driver().stream_now(first.handle, 0).id;
  const StreamFrees* const frees = frees_of(first.handle, id);
  const std::uint64_t epoch = close_epoch(first.handle, id);
  book.leaves(first.handle);
  book.has_left(first.handle, true);
  EXPECT_EQ(frees_of(second.handle, rig.driver().stream_now(second.handle, 0).id), frees);
  EXPECT_NE(frees_of(first.handle, id), frees);
  EXPECT_GT(close_epoch(first.handle, id), epoch) << "an epoch means no two frees";
}

TEST_F(StreamBooks, AStreamIsNotOrderedAsTheOneWhosePlaceItTakes) {
  const BoundStream first = rig.new_stream(0), other = rig.new_stream(0),
                    second = rig.new_stream(0);
  const auto id_of = [&](BoundStream stream) {
    return rig.driver().stream_now(stream.handle, 0).id;
  };
  book.order({first.handle, id_of(first)}, {other.handle, id_of(other)});
  const StreamFrees* const frees = frees_of(first.handle, id_of(first));
  book.leaves(first.handle);
  book.has_left(first.handle, true);
  ASSERT_EQ(frees_of(second.handle, id_of(second)), frees);
  EXPECT_TRUE(book.with(second.handle, id_of(second),
                        [](StreamFrees& own)
                            VMART_REQUIRES(own.mutex) { return own.after.empty(); }));
}

TEST_F(StreamBooks, WhatAnEventHasShownStaysComplete) {
  const BoundStream stream = rig.new_stream(0);
  const std::uint64_t id = rig.driver().stream_now(stream.handle, 0).id;
  const auto with = [&](const auto& body) { return book.with(stream.handle, id, body); };
  const std::uint64_t earlier = close_epoch(stream.handle, id);
  const std::uint64_t later = with([](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    const std::uint64_t epoch = frees.note();
    EXPECT_TRUE(frees.mark());
    return epoch;
  });
  rig.machine().synchronize_context(rig.context(0));
  with([&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    frees.poll();
    EXPECT_EQ(frees.done_epoch(), later);
    frees.complete(earlier);  // Of a wait that began before.
    EXPECT_EQ(frees.done_epoch(), later);
  });
}

TEST_F(StreamBooks, AStreamThatStaysKeepsItsFrees) {
  const BoundStream first = rig.new_stream(0), second = rig.new_stream(0);
  const std::uint64_t id = rig.driver().stream_now(first.handle, 0).id;
  const StreamFrees* const frees = frees_of(first.handle, id);
  book.leaves(first.handle);
  book.has_left(first.handle, false);
  EXPECT_NE(frees_of(second.handle, rig.driver().stream_now(second.handle, 0).id), frees);
  EXPECT_EQ(frees_of(first.handle, id), frees);
}

TEST_F(StreamBooks, TheDriverIsAskedForANumberUnlessTheStreamLasts) {
  const StreamHandle stream = rig.new_stream(0).handle;
  const std::uint64_t id = rig.driver().stream_now(stream, 0).id, told = id + 1000;
  EXPECT_EQ(book.now(stream).id, id);
  frees_of(stream, told);
  EXPECT_EQ(book.now(stream).id, told);
  book.leaves(stream);
  EXPECT_EQ(book.now(stream).id, id);
  book.has_left(stream, false);
  EXPECT_EQ(book.now(stream).id, told);
  book.leaves(stream);
  book.has_left(stream, true);
  EXPECT_EQ(book.now(stream).id, id);
}

TEST_F(StreamBooks, TheDriverIsAskedForTheNumberOfAStreamWhoseEndIsNotTold) {
  StreamBook promised{rig.driver(), rig.memory().contexts(),
                      [](StreamHandle) { return StreamFrees::Life::promised; }};
  const StreamHandle stream = rig.new_stream(0).handle;
  const std::uint64_t id = rig.driver().stream_now(stream, 0).id;
  promised.with(stream, id + 1000, [](StreamFrees&) {});
  EXPECT_EQ(promised.now(stream).id, id) << "its handle may be that of another stream by now";
}

}  // namespace
}  // namespace vma
