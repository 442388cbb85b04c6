// Goal: the list has the streams that a gate of an allocation must stop: each once, with the kind
// that the driver reports, without streams that are gone; attaching disturbs nobody.
#include "migrate/gates/attached_streams.hpp"

#include "support/drivers/intercept_driver.hpp"
#include "unit/migrate/gates/gate_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <vector>

namespace vma {
namespace {

constexpr Address all{}, mine{0x1000}, yours{0x2000};

struct AttachRig : GateRig {
  AttachRig() { machine().set_current_context(context(0)); }
  ~AttachRig() { machine().set_current_context({}); }
  std::size_t count(Address allocation) { return attached().in_scope(allocation).size(); }
};

TEST(AttachedStreams, AreInScopeOfAllMemoryOrOfTheirAllocation) {
  AttachRig rig;
  const BoundStream one = rig.new_stream(0), two = rig.new_stream(1);
  rig.attached().attach(one, all);
  rig.attached().attach(two, mine);
  EXPECT_EQ(rig.count(mine), 2u);
  EXPECT_EQ(rig.count(yours), 1u);
  rig.attached().attach(one, mine);  // Twice in scope, once in the list.
  EXPECT_EQ(rig.count(mine), 2u);
  rig.attached().detach(one, all);
  EXPECT_EQ(rig.count(mine), 2u);
  EXPECT_EQ(rig.count(yours), 0u);
  EXPECT_TRUE(rig.attached().any(mine));
  EXPECT_FALSE(rig.attached().any(yours));
}

TEST(AttachedStreams, OfTwoAllocationsAreTheSameOrNot) {
  AttachRig rig;
  const BoundStream one = rig.new_stream(0), two = rig.new_stream(1);
  rig.attached().attach(one, all);
  EXPECT_TRUE(rig.attached().same_scope(mine, yours));
  rig.attached().attach(one, mine);
  EXPECT_TRUE(rig.attached().same_scope(mine, yours)) << "it is in scope of both";
  rig.attached().attach(two, mine);
  EXPECT_FALSE(rig.attached().same_scope(mine, yours));
  EXPECT_FALSE(rig.attached().same_scope(yours, mine));
  rig.attached().attach(two, yours);
  EXPECT_TRUE(rig.attached().same_scope(mine, yours));
}

TEST(AttachedStreams, OfSeveralAllocationsAreListedOnce) {
  AttachRig rig;
  const BoundStream one = rig.new_stream(0), two = rig.new_stream(1), other = rig.new_stream(1);
  for (const Address scope : {all, mine}) rig.attached().attach(one, scope);
  for (const Address scope : {mine, yours}) rig.attached().attach(two, scope);
  rig.attached().attach(other, Address{0x3000});
  const std::array both = {mine, yours};
  EXPECT_EQ(AttachedStreams::Use(rig.attached(), both).streams().size(), 2u);
  EXPECT_EQ(AttachedStreams::Use(rig.attached()).streams().size(), 3u);
  const std::uint64_t before = rig.attached().last_attach(both);
  rig.attached().attach(other, yours);
  EXPECT_GT(rig.attached().last_attach(both), before);
  const std::uint64_t known = rig.attached().last_attach(both);
  rig.attached().forget_allocation(yours);
  rig.attached().attach(other, mine);
  EXPECT_NE(rig.attached().last_attach(both), known) << "a free hides no attach";
}

TEST(AttachedStreams, AreDetachedOnceNobodyUsesThem) {
  AttachRig rig;
  const BoundStream stream = rig.new_stream(0), other = rig.new_stream(1);
  for (const BoundStream each : {stream, other}) rig.attached().attach(each, all);
  rig.attached().attach(other, mine);
  AttachedStreams::Use use(rig.attached(), yours);
  rig.attached().detach(other, all);  // It is still attached, and still exists.
  EXPECT_FALSE(use.wanted());
  std::atomic<bool> detached{false};
  const auto program = ThreadedExecutor().spawn("program", [&] {
    rig.attached().detach(stream, all);
    detached = true;
  });
  EXPECT_TRUE(comes_true([&] { return use.wanted().load(); }));
  EXPECT_FALSE(detached);
  EXPECT_EQ(rig.count(yours), 0u) << "no new gate stops it";
  use.end();
  program->join();
  EXPECT_TRUE(detached);
}

TEST(AttachedStreams, KnowTheirContextAndKind) {
  AttachRig rig;
  const BoundStream free = rig.new_stream(1), bound = rig.new_blocking_stream(1);
  rig.attached().attach({{}, free.handle}, all);
  rig.attached().attach({{}, bound.handle}, all);
  rig.attached().attach({{}, StreamHandle{1}}, all);
  rig.attached().attach({{}, StreamHandle{2}}, all);
  const auto streams = rig.attached().in_scope(mine);
  ASSERT_EQ(streams.size(), 4u);
  EXPECT_EQ(streams[0].bound.context, rig.context(1));
  EXPECT_EQ(streams[0].kind, StreamKind::non_blocking);
  EXPECT_EQ(streams[1].kind, StreamKind::blocking);
  for (const std::size_t built_in : {2u, 3u}) {
    EXPECT_EQ(streams[built_in].bound.context, rig.context(0));
    EXPECT_EQ(streams[built_in].kind, StreamKind::blocking);
  }
}

/// Counts the calls that would invalidate a capture.
class CaptureEnders : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;
  std::atomic<int> asked{0};

 private:
  void around(Call call, const std::function<void()>& body) override {
    const Call enders[] = {Call::stream_id,   Call::stream_kind,    Call::query_stream,
                           Call::wait_stream, Call::record_context, Call::hold_context};
    if (std::ranges::find(enders, call) != std::end(enders)) ++asked;
    body();
  }
};

void capture_nothing(AttachRig& rig, BoundStream stream) {
  rig.machine().destroy_graph(rig.machine().end_capture(stream));
}

TEST(AttachedStreams, StopTogetherIfTheyAreBlockingAndShareAContext) {
  AttachRig rig;
  const auto blocking = [&](int device) {
    return rig.machine().create_stream(rig.context(device), StreamKind::blocking);
  };
  const BoundStream one = blocking(0), two = blocking(0), apart = blocking(1),
                    free = rig.new_stream(0);
  for (const BoundStream stream : {one, apart, free}) rig.attached().attach(stream, all);
  rig.attached().attach(two, mine);
  const auto marked = [&](Address allocation) {
    std::vector<StreamHandle> handles;
    for (const AttachedStreams::Stream& stream : rig.attached().in_scope(allocation)) {
      if (stream.together) handles.push_back(stream.bound.handle);
    }
    return handles;
  };
  rig.attached().stop_together(yours);
  EXPECT_TRUE(marked(mine).empty()) << "there is only one that may use it";
  rig.attached().stop_together(mine);
  EXPECT_EQ(marked(mine), (std::vector{one.handle, two.handle}));
  rig.attached().attach(one, yours);
  rig.attached().detach(one, all);
  EXPECT_EQ(marked(yours), std::vector{one.handle}) << "it is marked in each scope";
  for (const BoundStream stream : {apart, free}) rig.attached().detach(stream, all);
  rig.attached().detach(one, yours);
  rig.attached().detach(two, mine);
  for (const BoundStream stream : {one, two, apart}) rig.machine().destroy_stream(stream);
}

TEST(AttachedStreams, KeepTheirKindWhateverTheyCapture) {
  AttachRig rig;
  for (const BoundStream stream : {rig.new_stream(0), rig.new_blocking_stream(0)}) {
    rig.attached().attach(stream, mine);
    const auto kind = rig.attached().in_scope(mine)[0].kind;
    ASSERT_TRUE(kind);
    rig.machine().begin_capture(stream, CaptureMode::relaxed);
    EXPECT_TRUE(rig.attached().find_capturing());
    EXPECT_TRUE(rig.attached().drop_lost(mine).empty());
    rig.attached().attach(stream, all);
    capture_nothing(rig, stream);
    EXPECT_EQ(rig.attached().in_scope(mine)[0].kind, kind);
    EXPECT_EQ(rig.attached().in_scope(yours)[0].kind, kind);
    for (const Address scope : {mine, all}) rig.attached().detach(stream, scope);
  }
}

TEST(AttachedStreams, HaveNoKindUntilTheyAreAttachedWhileTheyDoNotCapture) {
  AttachRig rig;
  const BoundStream stream = rig.new_blocking_stream(0);
  rig.machine().begin_capture(stream, CaptureMode::relaxed);
  for (const Address scope : {mine, all}) rig.attached().attach(stream, scope);
  EXPECT_FALSE(rig.attached().in_scope(mine)[0].kind);
  capture_nothing(rig, stream);
  rig.attached().attach(stream, yours);
  for (const Address scope : {mine, yours})
    EXPECT_EQ(rig.attached().in_scope(scope)[0].kind, StreamKind::blocking);
}

/// Gives streams another kind, as if they were new ones with the same handles.
class OtherKinds : public CaptureEnders {
 public:
  using CaptureEnders::CaptureEnders;
  StreamKind stream_kind(BoundStream stream) override {
    const StreamKind kind = CaptureEnders::stream_kind(stream);
    return new_kind ? *new_kind : kind;
  }
  std::optional<StreamKind> new_kind;
};

TEST(AttachedStreams, AreAskedForTheirKindOnceUnlessTheyAreAttachedToTheSameScopeAgain) {
  AttachRig rig;
  OtherKinds driver(rig.driver());
  AttachedStreams attached(driver, rig.topology());
  const BoundStream stream = rig.new_stream(0);
  for (const Address scope : {mine, all}) attached.attach(stream, scope);
  EXPECT_EQ(driver.asked, 1);
  driver.new_kind = StreamKind::blocking;
  expect_error(ErrorKind::invalid_argument, [&] { attached.attach(stream, mine); });
  EXPECT_EQ(driver.asked, 2);
  for (const Address scope : {mine, yours})
    EXPECT_EQ(attached.in_scope(scope)[0].kind, StreamKind::blocking);
  driver.new_kind = StreamKind::non_blocking;
  rig.machine().begin_capture(stream, CaptureMode::relaxed);
  expect_error(ErrorKind::invalid_argument, [&] { attached.attach(stream, mine); });
  ASSERT_NO_THROW(capture_nothing(rig, stream));
  EXPECT_EQ(attached.in_scope(mine)[0].kind, StreamKind::blocking) << "it could not be asked";
}

TEST(AttachedStreams, MayHaveGraphsUnlessAllWhoAttachedThemSayNo) {
  AttachRig rig;
  const BoundStream stream = rig.new_stream(0);
  const auto graphs = [&](Address allocation) {
    return rig.attached().in_scope(allocation).front().graphs;
  };
  rig.attached().attach(stream, mine, StreamWork::no_graphs);
  EXPECT_FALSE(graphs(mine));
  rig.attached().attach(stream, all);
  EXPECT_TRUE(graphs(mine));
  EXPECT_TRUE(graphs(yours));
}

TEST(AttachedStreams, RefuseWhatIsAttachedOrNot) {
  AttachRig rig;
  const BoundStream stream = rig.new_stream(0);
  expect_error(ErrorKind::invalid_argument, [&] { rig.attached().detach(stream, all); });
  rig.attached().attach(stream, mine);
  expect_error(ErrorKind::invalid_argument, [&] { rig.attached().attach(stream, mine); });
  expect_error(ErrorKind::invalid_argument, [&] { rig.attached().detach(stream, all); });
  expect_error(ErrorKind::invalid_argument, [&] { rig.attached().detach(stream, yours); });
  rig.attached().detach(stream, mine);
  EXPECT_EQ(rig.count(mine), 0u);
  rig.attached().attach({{}, StreamHandle{0}}, all);
  expect_error(ErrorKind::invalid_argument, [&] {
    rig.attached().attach({{}, StreamHandle{1}}, all);
  });  // The same stream.
  rig.attached().detach({{}, StreamHandle{1}}, all);
}

TEST(AttachedStreams, RefuseStreamsThatCannotBeStopped) {
  AttachRig rig;
  EXPECT_THROW(rig.attached().attach({{}, StreamHandle{0x1234'5678}}, all), Error);
  const std::vector<int> first{0};
  const Topology narrow = Topology::discover(rig.machine(), first);
  AttachedStreams of_one(rig.driver(), narrow);
  of_one.attach(rig.new_stream(0), all);
  expect_error(ErrorKind::invalid_argument, [&] { of_one.attach(rig.new_stream(1), all); });
  EXPECT_EQ(of_one.in_scope(mine).size(), 1u);
}

TEST(AttachedStreams, TellPerThreadStreamsOfThreadsApart) {
  AttachRig rig;
  const BoundStream own{rig.context(0), StreamHandle{2}};
  rig.attached().attach(own, all);
  const auto other = ThreadedExecutor().spawn("user", [&] {
    expect_error(ErrorKind::invalid_argument, [&] { rig.attached().detach(own, all); });
    rig.attached().attach(own, all);
    EXPECT_EQ(rig.count(mine), 2u);
    rig.attached().detach(own, all);
  });
  other->join();
  EXPECT_EQ(rig.count(mine), 1u);
  rig.attached().detach(own, all);
}

TEST(AttachedStreams, GoWithTheirAllocation) {
  AttachRig rig;
  const BoundStream stream = rig.new_stream(0);
  rig.attached().attach(stream, mine);
  rig.attached().attach(stream, all);
  rig.attached().forget_allocation(yours);
  rig.attached().forget_allocation(mine);
  rig.attached().detach(stream, all);
  EXPECT_FALSE(rig.attached().any(mine));
}

TEST(AttachedStreams, AreWantedBackWhenTheirAllocationGoes) {
  AttachRig rig;
  rig.attached().attach(rig.new_stream(0), mine);
  const AttachedStreams::Use use(rig.attached(), mine);
  rig.attached().forget_allocation(yours);
  EXPECT_FALSE(use.wanted());
  rig.attached().forget_allocation(mine);
  EXPECT_TRUE(use.wanted());
}

TEST(AttachedStreams, AreDroppedOnceTheyAreDestroyed) {
  AttachRig rig;
  const BoundStream lives = rig.new_stream(0);
  const BoundStream dies = rig.machine().create_stream(rig.context(0), StreamKind::non_blocking);
  rig.attached().attach(lives, all);
  rig.attached().attach(dies, all);
  rig.attached().attach(dies, mine);
  EXPECT_TRUE(rig.attached().drop_lost(mine).empty());
  rig.machine().destroy_stream(dies);
  const auto lost = rig.attached().drop_lost(mine);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].bound.handle, dies.handle);
  ASSERT_EQ(rig.count(mine), 1u);
  EXPECT_EQ(rig.attached().in_scope(mine)[0].bound.handle, lives.handle);
}

TEST(AttachedStreams, AreDroppedWithTheirContext) {
  AttachRig rig;
  const ContextHandle own = rig.machine().create_context(DeviceId{0});
  const BoundStream created = rig.machine().create_stream(own, StreamKind::blocking);
  rig.attached().attach(created, all);
  rig.attached().attach({own, {}}, all);
  rig.machine().destroy_stream(created);
  rig.machine().destroy_context(own);
  EXPECT_EQ(rig.attached().drop_lost(mine).size(), 2u);
  EXPECT_EQ(rig.count(mine), 0u);
}

TEST(AttachedStreams, MayBeDetachedAfterTheyWereDestroyed) {
  AttachRig rig;
  const BoundStream dies = rig.machine().create_stream(rig.context(0), StreamKind::non_blocking);
  rig.attached().attach(dies, all);
  rig.machine().destroy_stream(dies);
  EXPECT_NO_THROW(rig.attached().detach(dies, all));
  EXPECT_EQ(rig.count(mine), 0u);
}

TEST(AttachedStreams, CountWhatCameIntoScopeThoughItIsGoneAgain) {
  AttachRig rig;
  const std::array my_scope = {mine};
  const std::uint64_t before = rig.attached().last_attach(my_scope);
  const BoundStream stream = rig.new_stream(0);
  rig.attached().attach(stream, yours);
  EXPECT_EQ(rig.attached().last_attach(my_scope), before);
  for (const Address scope : {mine, all}) {
    const std::uint64_t known = rig.attached().last_attach(my_scope);
    rig.attached().attach(stream, scope);
    rig.attached().detach(stream, scope);
    EXPECT_GT(rig.attached().last_attach(my_scope), known);
  }
}

TEST(AttachedStreams, DisturbNoCapture) {
  AttachRig rig;
  for (const CaptureMode mode :
       {CaptureMode::global, CaptureMode::thread_local_mode, CaptureMode::relaxed}) {
    for (const BoundStream stream : {rig.new_stream(0), rig.new_blocking_stream(0)}) {
      EXPECT_FALSE(rig.attached().find_capturing());
      rig.machine().begin_capture(stream, mode);
      rig.attached().attach(stream, all);
      rig.attached().attach({{}, StreamHandle{1}}, all);
      EXPECT_EQ(rig.attached().find_capturing()->bound.handle, stream.handle);
      EXPECT_TRUE(rig.attached().drop_lost(mine).empty());
      rig.attached().detach({{}, StreamHandle{1}}, all);
      rig.attached().detach(stream, all);
      GraphHandle graph{};
      ASSERT_NO_THROW(graph = rig.machine().end_capture(stream));
      rig.machine().destroy_graph(graph);
    }
  }
}

TEST(AttachedStreams, AskNothingThatACaptureWhichBeginsMeanwhileWouldNotOutlive) {
  AttachRig rig;
  CaptureEnders driver(rig.driver());
  AttachedStreams attached(driver, rig.topology());
  const BoundStream stream = rig.new_stream(0), other = rig.new_stream(0);
  for (const Address scope : {all, mine}) {
    for (const BoundStream each : {stream, other}) attached.attach(each, scope);
    driver.asked = 0;  // `attach` may.
    EXPECT_TRUE(attached.drop_lost(mine).empty());
    EXPECT_FALSE(attached.find_capturing());
    for (const BoundStream each : {stream, other}) attached.detach(each, scope);
    EXPECT_EQ(driver.asked, 0);
  }
}

TEST(AttachedStreams, AreSafeFromAnyThread) {
  AttachRig rig;
  std::vector<BoundStream> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(rig.new_stream(i % 2));
  std::vector<std::unique_ptr<Task>> users;
  for (const BoundStream stream : streams) {
    users.push_back(ThreadedExecutor().spawn("user", [&rig, stream] {
      for (int round = 0; round < 200; ++round) {
        rig.attached().attach(stream, mine);
        EXPECT_GE(rig.count(mine), 1u);
        EXPECT_TRUE(rig.attached().drop_lost(mine).empty());
        rig.attached().detach(stream, mine);
      }
    }));
  }
  for (const auto& user : users) user->join();
  EXPECT_EQ(rig.count(mine), 0u);
}

}  // namespace
}  // namespace vma
