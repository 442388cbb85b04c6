// Goal: several allocations that move in the background with one call are submitted together and
// share their stops; the handle waits for all, and reports, cancels and fails each. Method: a
// runtime on a simulated machine; hooks hold moves up.

#include "runtime/runtime_parts.hpp"
#include "unit/runtime/groups/group_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace vma {
namespace {

using std::chrono::seconds;

/// With attached streams.
class GroupAsync : public GroupRig {
 protected:
  GroupAsync() : GroupRig(patient()) {
    for (int gpu = 0; gpu < rig_.gpus(); ++gpu) attached_.emplace_back(runtime(), rig_.stream(gpu));
  }
  ~GroupAsync() override { attached_.clear(); }

  std::vector<MoveRequest> requests_to(Place to, int allocations) {
    std::vector<MoveRequest> requests;
    for (int i = 0; i < allocations; ++i) requests.push_back({add(gpu(0)), to});
    return requests;
  }
  std::vector<AttachedStream> attached_;
};

/// The error that `body` throws; the test fails if it throws none.
std::optional<Error> error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return std::nullopt;
}

TEST_F(GroupAsync, RequestsOfOneWayShareGates) {
  constexpr int allocations = 10;
  const std::vector<MoveRequest> requests = requests_to(gpu(1), allocations);
  MigrateOptions options;
  options.max_stall = seconds(1);
  const MigrationGroup group = runtime().migrate_async(requests, options);
  const GroupReport report = group.wait();
  EXPECT_TRUE(group.done());
  EXPECT_EQ(group.size(), requests.size());
  EXPECT_EQ(report.total.outcome, Outcome::done);
  EXPECT_EQ(report.total.chunks_moved, 2 * allocations);
  EXPECT_LT(report.total.stall.count, std::uint64_t{allocations});
  EXPECT_EQ(report.total.stall.count, runtime().stats().gates) << "each gate once";
  std::uint64_t of_each = 0;
  for (const RequestReport& one : report.requests) {
    EXPECT_EQ(one.report.outcome, Outcome::done);
    EXPECT_FALSE(one.error);
    of_each += one.report.stall.count;
  }
  EXPECT_GE(of_each, std::uint64_t{allocations}) << "once for each request with chunks at it";
  EXPECT_GT(report.total.wall.count(), 0);
  EXPECT_EQ(group.error(), nullptr);
  expect_whole();
}

TEST_F(GroupAsync, RequestsOfSeveralWaysAllMove) {
  std::uint64_t *one = add(gpu(0)), *two = add(gpu(1)), *three = add(host(0));
  const GroupReport report =
      runtime()
          .migrate_async(std::vector<MoveRequest>{
              {one, gpu(1)}, {two, host(0), chunk_bytes, 8}, {two, gpu(0), 0, 8}, {three, gpu(0)}})
          .wait();
  EXPECT_EQ(report.total.outcome, Outcome::done);
  EXPECT_EQ(report.total.route, "gpu(0)->gpu(1), gpu(1)->gpu(0), gpu(1)->host(0), host(0)->gpu(0)");
  EXPECT_EQ(rig_.place(one), gpu(1));
  EXPECT_EQ(runtime().where(two).at(0).at, gpu(0));
  EXPECT_EQ(runtime().where(two).at(1).at, host(0));
  EXPECT_EQ(rig_.place(three), gpu(0));
  expect_whole();
}

TEST_F(GroupAsync, TheSynchronousFormAtGatesIsTheSameAndAWait) {
  MigrateOptions options;
  options.scope = StopScope::attached;
  options.mode = Mode::live;
  int calls = 0;
  options.on_progress = [&](const MigrationProgress&) { ++calls; };
  const GroupReport report = runtime().migrate(requests_to(gpu(1), 3), options);
  EXPECT_EQ(report.total.chunks_live, 6);
  EXPECT_EQ(calls, 6) << "all before it returns";
  attached_.clear();  // Nothing need be attached.
  const GroupReport back = runtime().migrate(std::vector<MoveRequest>{{all_[0], gpu(0)}}, options);
  EXPECT_EQ(back.total.chunks_live, 2);
  expect_whole();
}

TEST_F(GroupAsync, RequestsUnderAHoldShareIt) {
  attached_.clear();
  MigrateOptions options;
  options.scope = StopScope::hold;
  const GroupReport report = runtime().migrate_async(requests_to(gpu(1), 8), options).wait();
  EXPECT_EQ(report.total.outcome, Outcome::done);
  EXPECT_EQ(report.total.stall.count, 1u);
  EXPECT_EQ(report.total.chunks_moved, 16);
  for (const RequestReport& one : report.requests) EXPECT_EQ(one.report.stall.count, 1u);
  expect_whole();
}

// Under a hold that it shared, the hook would run while the claim of the other is held.
TEST_F(GroupAsync, AHookMayFreeWhatMovesInTheSameGroup) {
  attached_.clear();
  for (const bool hooked_first : {true, false}) {
    std::uint64_t* hooked = add(gpu(0));
    std::uint64_t* other = rig_.alloc(size_bytes, gpu(0));
    std::atomic<int> before{0};
    const MoveHookRegistration hook = runtime().on_move(hooked, {[&](const MoveEvent&) {
                                                                   if (++before > 1) return;
                                                                   runtime().free(other);
                                                                 },
                                                                 {}});
    std::vector<MoveRequest> requests{{hooked, gpu(1)}, {other, gpu(1)}};
    if (!hooked_first) std::ranges::reverse(requests);
    MigrateOptions options;
    options.scope = StopScope::hold;
    const MigrationGroup group = runtime().migrate_async(requests, options);
    ASSERT_TRUE(group.wait_for(seconds(60)));
    EXPECT_EQ(group.request(hooked_first ? 0 : 1).wait().outcome, Outcome::done);
    EXPECT_EQ(before, 2);
  }
  expect_whole();
}

TEST_F(GroupAsync, EachRequestFailsForItself) {
  std::uint64_t *one = add(gpu(0)), *pinned = add(gpu(0)), *unused = add(gpu(0));
  attached_.clear();
  for (std::uint64_t* words : {one, pinned}) {
    attached_.emplace_back(runtime(), rig_.stream(0), words);
  }
  const Pin pin = runtime().pin(pinned);
  const MigrationGroup group = runtime().migrate_async(
      std::vector<MoveRequest>{{one, gpu(1)}, {pinned, gpu(1)}, {unused, gpu(1)}});
  EXPECT_TRUE(group.wait_for(seconds(60)));
  const auto error = error_of([&] { group.wait(); });
  EXPECT_EQ(error->kind(), ErrorKind::pinned);
  ASSERT_NE(error->group(), nullptr);
  EXPECT_EQ(error->group()->total.outcome, Outcome::partly);
  EXPECT_EQ(error->group()->requests[0].report.outcome, Outcome::done);
  EXPECT_EQ(error->group()->requests[1].error->kind(), ErrorKind::pinned);
  EXPECT_EQ(error->group()->requests[2].report.outcome, Outcome::done) << "held";
  EXPECT_NE(group.error(), nullptr);
  EXPECT_EQ(group.report().failed(), 1u);
  EXPECT_EQ(rig_.place(one), gpu(1));
  EXPECT_EQ(rig_.place(pinned), gpu(0));
  attached_.clear();
}

TEST_F(GroupAsync, InvalidRequestsAreRefusedAtOnce) {
  std::uint64_t* one = add(gpu(0));
  const auto refused = [&](ErrorKind kind, const std::vector<MoveRequest>& requests,
                           const MigrateOptions& options = {}) {
    const auto error = error_of([&] { runtime().migrate_async(requests, options); });
    EXPECT_EQ(error->kind(), kind);
    EXPECT_EQ(error->call(), "vma::migrate_async");
    EXPECT_EQ(error->group(), nullptr);
  };
  refused(ErrorKind::unknown_pointer, {{one, gpu(1)}, {nullptr, gpu(1)}});
  refused(ErrorKind::invalid_argument, {{one, gpu(1)}, {one, gpu(9)}});
  refused(ErrorKind::invalid_argument, {{one, gpu(1)}, {one, host(0)}});
  MigrateOptions live;
  live.scope = StopScope::hold;
  live.mode = Mode::live;
  refused(ErrorKind::unsupported, {{one, gpu(1)}}, live);
  // More than may be queued: none of them begins.
  refused(ErrorKind::busy, std::vector<MoveRequest>(65'537, {one, gpu(1)}));
  EXPECT_EQ(rig_.place(one), gpu(0));
  EXPECT_EQ(runtime().stats().migrations, 0u);
}

TEST_F(GroupAsync, NoRequestsAreDoneAtOnce) {
  const MigrationGroup group = runtime().migrate_async(std::span<const MoveRequest>());
  EXPECT_TRUE(group.done());
  EXPECT_TRUE(group.wait_for(std::chrono::nanoseconds(0)));
  EXPECT_EQ(group.wait().total.outcome, Outcome::done);
  EXPECT_EQ(group.size(), 0u);
  std::promise<void> called;
  group.on_done([&] { called.set_value(); });
  called.get_future().wait();
}

TEST_F(GroupAsync, AnEmptyHandleIsRefused) {
  const MigrationGroup none;
  const auto refused = [](const std::function<void()>& body) {
    EXPECT_EQ(kind_of_error(body), ErrorKind::invalid_argument);
  };
  refused([&] { none.wait(); });
  refused([&] { none.wait_for(seconds(1)); });
  refused([&] { none.done(); });
  refused([&] { none.cancel(); });
  refused([&] { none.report(); });
  refused([&] { none.error(); });
  refused([&] { none.on_done([] {}); });
  refused([&] { none.size(); });
  refused([&] { none.request(0); });
  const MigrationGroup group = runtime().migrate_async(requests_to(gpu(1), 1));
  refused([&] { group.request(1); });
  refused([&] { group.on_done(nullptr); });
  EXPECT_EQ(group.request(0).wait().outcome, Outcome::done);
}

/// A hook that holds up the first move of an allocation until it is told to go on.
class HeldUp {
 public:
  HeldUp(Runtime& runtime, void* pointer)
      : hook_(runtime.on_move(pointer, {[this](const MoveEvent& event) {
                                          if (event.offset != 0) return;
                                          reached_.set_value();
                                          go_on_.get_future().wait();
                                        },
                                        {}})) {}
  void await() { reached_.get_future().wait(); }
  void go_on() { go_on_.set_value(); }

 private:
  std::promise<void> reached_, go_on_;
  MoveHookRegistration hook_;
};

TEST_F(GroupAsync, TheHandleIsThereBeforeTheEnd) {
  std::vector<MoveRequest> requests = requests_to(gpu(1), 4);
  HeldUp held_up(runtime(), requests[3].pointer);
  const MigrationGroup group = runtime().migrate_async(requests);
  std::atomic<int> ended{0};
  group.on_done([&] { ++ended; });
  held_up.await();
  EXPECT_EQ(group.request(0).wait().outcome, Outcome::done);
  EXPECT_FALSE(group.done());
  EXPECT_FALSE(group.wait_for(std::chrono::milliseconds(5)));
  EXPECT_EQ(group.error(), nullptr);
  const GroupReport early = group.report();
  EXPECT_EQ(early.total.outcome, Outcome::partly);
  EXPECT_EQ(early.requests[3].report.outcome, Outcome::partly);
  EXPECT_EQ(early.failed(), 0u);
  EXPECT_EQ(ended, 0);
  held_up.go_on();
  EXPECT_EQ(group.wait().total.outcome, Outcome::done);
  while (ended == 0) std::this_thread::yield();
  std::promise<void> late;
  group.on_done([&] { late.set_value(); });
  late.get_future().wait();
  EXPECT_EQ(ended, 1) << "once";
  expect_whole();
}

TEST_F(GroupAsync, CancellingEndsAllThatHasNotMoved) {
  std::vector<MoveRequest> requests = requests_to(gpu(1), 4);
  HeldUp held_up(runtime(), requests[3].pointer);
  const MigrationGroup group = runtime().migrate_async(requests);
  held_up.await();
  for (std::size_t i = 0; i < 3; ++i) group.request(i).wait();
  group.cancel();
  held_up.go_on();
  const auto error = error_of([&] { group.wait(); });
  EXPECT_EQ(error->kind(), ErrorKind::cancelled);
  EXPECT_EQ(error->group()->total.outcome, Outcome::cancelled);
  EXPECT_EQ(error->group()->failed(), 1u);
  EXPECT_EQ(rig_.place(requests[2].pointer), gpu(1));
  EXPECT_EQ(rig_.place(requests[3].pointer), gpu(0));
  expect_whole();
}

TEST_F(GroupAsync, OneRequestCanBeCancelledAlone) {
  std::vector<MoveRequest> requests = requests_to(gpu(1), 3);
  std::reverse(requests.begin(), requests.end());
  HeldUp held_up(runtime(), requests[1].pointer);
  const MigrationGroup group = runtime().migrate_async(requests);
  held_up.await();
  group.request(1).cancel();
  held_up.go_on();
  const auto error = error_of([&] { group.wait(); });
  EXPECT_EQ(error->group()->failed(), 1u);
  EXPECT_EQ(error->group()->requests[1].report.outcome, Outcome::cancelled);
  EXPECT_EQ(rig_.place(requests[0].pointer), gpu(1));
  EXPECT_EQ(rig_.place(requests[2].pointer), gpu(1));
}

TEST_F(GroupAsync, ProgressIsThatOfAllRequests) {
  std::promise<void> all;
  std::vector<MigrationProgress> seen;
  MigrateOptions options;
  options.on_progress = [&](const MigrationProgress& progress) {
    seen.push_back(progress);
    if (progress.chunks_moved == progress.chunks) all.set_value();
  };
  const MigrationGroup group = runtime().migrate_async(requests_to(gpu(1), 5), options);
  group.wait();
  all.get_future().wait();
  ASSERT_EQ(seen.size(), 10u);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].chunks, 10);
    EXPECT_EQ(seen[i].chunks_moved, static_cast<int>(i) + 1);
    EXPECT_EQ(seen[i].bytes_moved, (i + 1) * chunk_bytes);
    EXPECT_EQ(seen[i].bytes_asked, 5 * size_bytes);
  }
}

TEST_F(GroupAsync, AFreeEndsOnlyItsOwnRequest) {
  std::vector<MoveRequest> requests = requests_to(gpu(1), 3);
  HeldUp held_up(runtime(), requests[0].pointer);
  const MigrationGroup group = runtime().migrate_async(requests);
  held_up.await();
  const std::shared_ptr<Allocation> freed =
      parts_of(runtime()).machinery->memory.require(requests[0].pointer, "test");
  std::thread freer([&] { runtime().free(requests[0].pointer); });
  while (!freed->being_freed) std::this_thread::yield();
  held_up.go_on();
  freer.join();
  const auto error = error_of([&] { group.wait(); });
  EXPECT_EQ(error->kind(), ErrorKind::cancelled);
  EXPECT_EQ(error->group()->failed(), 1u);
  EXPECT_EQ(rig_.place(requests[1].pointer), gpu(1));
  EXPECT_EQ(rig_.place(requests[2].pointer), gpu(1));
}

TEST(GroupAsyncEnd, OfTheRuntimeEndsTheRequests) {
  RuntimeRig rig("test-2", patient());
  std::vector<MoveRequest> requests;
  for (int i = 0; i < 6; ++i) requests.push_back({rig.alloc(2 * chunk_bytes, gpu(0)), gpu(1)});
  std::optional<AttachedStream> attached(std::in_place, rig.runtime(), rig.stream(0));
  const MigrationGroup group = rig.runtime().migrate_async(requests);
  rig.runtime().shutdown();
  EXPECT_TRUE(group.done());
  EXPECT_EQ(group.report().requests.size(), 6u) << "the reports outlive it";
  EXPECT_TRUE(group.wait_for(seconds(1)));
  EXPECT_EQ(kind_of_error([&] { rig.runtime().migrate_async(requests); }), ErrorKind::driver_gone);
}

// Groups at gates and under holds, some cancelled, and groups that wait, of overlapping sets; one
// of the allocations is freed beside.
TEST_F(GroupAsync, OfManyThreadsEndsInAnyOrder) {
  for (int i = 0; i < 6; ++i) add(gpu(i % 2));
  in_threads([&](int round, std::vector<MoveRequest>& requests) {
    void* own = requests.back().pointer;
    if (round % 4 == 0) {
      requests.pop_back();
      runtime().free(own);
      runtime().migrate(requests);
      return;
    }
    MigrateOptions options;
    if (round % 4 == 1) options.scope = StopScope::hold;
    const MigrationGroup group = runtime().migrate_async(requests, options);
    if (round % 4 == 2) group.cancel();
    runtime().free(own);
    group.wait();
  });
  expect_whole();
}

}  // namespace
}  // namespace vma
