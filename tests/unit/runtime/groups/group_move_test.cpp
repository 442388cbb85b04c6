// Goal: a call that moves several allocations keeps its promises: one stop for all, a report for
// each request, an error that names those that failed, and nothing lost; and it refuses what it
// must before anything is stopped. Method: a runtime on a simulated machine.

#include "runtime/runtime_parts.hpp"
#include "unit/runtime/groups/group_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace vma {
namespace {

class GroupMove : public GroupRig {
 protected:
  using GroupRig::GroupRig;

  /// Requests that are refused, all of them.
  Error refuse(ErrorKind kind, const std::vector<MoveRequest>& requests,
               const MigrateOptions& options = {}) {
    try {
      rig_.runtime().migrate(requests, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_EQ(error.call(), "vma::migrate") << error.what();
      EXPECT_EQ(error.group(), nullptr) << "nothing has begun";
      return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return Error(kind, "vma::migrate", "");
  }
  static bool says(const Error& error, const std::string& text) {
    return std::string(error.what()).find(text) != std::string::npos;
  }
};

class HeldGroupMove : public GroupMove {
 protected:
  HeldGroupMove() : GroupMove(without_suspension()) {}
};

TEST_F(GroupMove, AllRequestsMoveBehindOneStop) {
  std::uint64_t *one = add(gpu(0)), *two = add(gpu(1)), *three = add(host(0));
  const std::vector<MoveRequest> requests{
      {one, gpu(1)}, {two, host(0), chunk_bytes, 1}, {three, gpu(0)}};
  const GroupReport report = runtime().migrate(requests);
  EXPECT_EQ(report.failed(), 0u);
  ASSERT_EQ(report.requests.size(), 3u);
  EXPECT_EQ(report.requests[0].request.pointer, one);
  EXPECT_EQ(report.requests[1].request.to, host(0));
  EXPECT_EQ(report.requests[1].report.offset, chunk_bytes);
  EXPECT_EQ(report.requests[1].report.bytes_asked, chunk_bytes);
  EXPECT_EQ(report.requests[2].report.route, "host(0)->gpu(0)");
  for (const RequestReport& request : report.requests) {
    EXPECT_EQ(request.report.outcome, Outcome::done);
    EXPECT_EQ(request.report.bytes_moved, request.report.bytes_asked);
    EXPECT_FALSE(request.error);
  }
  EXPECT_EQ(report.total.outcome, Outcome::done);
  EXPECT_EQ(report.total.chunks_moved, 5);
  EXPECT_EQ(report.total.stall.count, 1u);
  EXPECT_EQ(rig_.place(one), gpu(1));
  EXPECT_EQ(runtime().where(two).size(), 2u);
  EXPECT_EQ(rig_.place(three), gpu(0));
  EXPECT_EQ(runtime().stats().migrations, 3u);
  expect_whole();
}

TEST_F(GroupMove, NoRequestsAreDoneAtOnce) {
  const GroupReport report = runtime().migrate(std::span<const MoveRequest>());
  EXPECT_EQ(report.total.outcome, Outcome::done);
  EXPECT_TRUE(report.requests.empty());
  EXPECT_EQ(runtime().stats().migrations, 0u);
}

TEST_F(GroupMove, InvalidRequestsAreNamedBeforeAnythingIsStopped) {
  std::uint64_t *one = add(gpu(0)), *freed = rig_.alloc(8, gpu(0));
  runtime().free(freed);
  int local = 0;
  const auto second = [&](ErrorKind kind, const MoveRequest& bad) {
    EXPECT_TRUE(says(refuse(kind, {{one, gpu(1)}, bad}), "request 1: "));
  };
  second(ErrorKind::unknown_pointer, {nullptr, gpu(1)});
  second(ErrorKind::unknown_pointer, {&local, gpu(1)});
  second(ErrorKind::unknown_pointer, {freed, gpu(1)});
  second(ErrorKind::invalid_argument, {one, gpu(7)});
  second(ErrorKind::invalid_argument, {one, gpu(1), 8, 0});
  second(ErrorKind::invalid_argument, {one, gpu(1), size_bytes, 1});
  second(ErrorKind::invalid_argument, {one, gpu(1), 0, SIZE_MAX});
  MigrateOptions options;
  options.mode = Mode::live;
  refuse(ErrorKind::unsupported, {{one, gpu(1)}}, options);
  options = {};
  options.deadline = std::chrono::milliseconds(-1);
  refuse(ErrorKind::invalid_argument, {{one, gpu(1)}}, options);
  EXPECT_EQ(rig_.place(one), gpu(0));
  EXPECT_EQ(runtime().stats().migrations, 0u);
}

TEST_F(GroupMove, NoChunkGoesToTwoPlaces) {
  std::uint64_t *one = add(gpu(0)), *two = add(gpu(0));
  const Error same =
      refuse(ErrorKind::invalid_argument, {{one, gpu(1)}, {two, gpu(1)}, {one, host(0)}});
  EXPECT_TRUE(says(same, "request 2: ")) << same.what();
  EXPECT_TRUE(says(same, "by request 0, to gpu(1)")) << same.what();
  // The bytes do not overlap, but the chunk is the same.
  const Error chunk =
      refuse(ErrorKind::invalid_argument, {{one, gpu(1), 0, 8}, {one, host(0), 8, 8}});
  EXPECT_TRUE(says(chunk, "the chunk at offset 0 ")) << chunk.what();
  const Error middle =
      refuse(ErrorKind::invalid_argument,
             {{one, gpu(1), chunk_bytes, 8}, {one, host(0), 0, 8}, {one, host(0)}});
  EXPECT_TRUE(says(middle, "by request 0, to gpu(1)")) << middle.what();
  EXPECT_EQ(rig_.place(one), gpu(0));
  EXPECT_EQ(
      runtime()
          .migrate(std::vector<MoveRequest>{{one, gpu(1), 0, 8}, {one, host(0), chunk_bytes, 8}})
          .total.outcome,
      Outcome::done);
  expect_whole();
}

TEST_F(GroupMove, ADuplicateFindsTheChunksThere) {
  std::uint64_t* one = add(gpu(0));
  const GroupReport report = runtime().migrate(
      std::vector<MoveRequest>{{one, gpu(1), 0, 1}, {one, gpu(1)}, {one, gpu(1)}});
  EXPECT_EQ(report.total.outcome, Outcome::done);
  EXPECT_EQ(report.total.chunks_moved, 2);
  EXPECT_EQ(report.requests[0].report.chunks_moved, 1);
  EXPECT_EQ(report.requests[1].report.chunks_moved, 1);
  EXPECT_EQ(report.requests[2].report.chunks_moved, 0);
  EXPECT_EQ(report.requests[2].report.outcome, Outcome::done);
  expect_whole();
}

TEST_F(GroupMove, TheErrorNamesWhatFailedAndHasEveryReport) {
  std::uint64_t *one = add(gpu(0)), *two = add(gpu(0)), *three = add(gpu(0));
  const Pin pin = runtime().pin(two);
  try {
    runtime().migrate(std::vector<MoveRequest>{{one, gpu(1)}, {two, gpu(1)}, {three, host(0)}});
    FAIL() << "one of them is pinned";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::pinned);
    EXPECT_TRUE(says(error, "1 of 3 requests")) << error.what();
    EXPECT_TRUE(says(error, "request 1: ")) << error.what();
    ASSERT_NE(error.group(), nullptr);
    ASSERT_NE(error.report(), nullptr);
    EXPECT_EQ(error.report(), &error.group()->total);
    EXPECT_EQ(error.group()->total.outcome, Outcome::partly);
    EXPECT_EQ(error.group()->total.bytes_moved, 2 * size_bytes);
    EXPECT_EQ(error.group()->failed(), 1u);
    ASSERT_TRUE(error.group()->requests[1].error);
    EXPECT_EQ(error.group()->requests[1].error->kind(), ErrorKind::pinned);
    EXPECT_EQ(error.group()->requests[1].report.outcome, Outcome::failed);
    EXPECT_EQ(error.group()->requests[1].report.bytes_asked, size_bytes);
    EXPECT_EQ(error.group()->requests[2].report.outcome, Outcome::done);
  }
  EXPECT_EQ(rig_.place(one), gpu(1));
  EXPECT_EQ(rig_.place(two), gpu(0));
  EXPECT_EQ(rig_.place(three), host(0));
  expect_whole();
}

TEST_F(HeldGroupMove, AManyTimesRepeatedReasonIsSaidOnce) {
  std::vector<MoveRequest> requests;
  for (int i = 0; i < 20; ++i) requests.push_back({add(gpu(0)), gpu(1)});
  const ContextHandle context = rig_.machine().retain_primary(DeviceId{0});
  const BoundStream stream = rig_.machine().create_stream(context, StreamKind::non_blocking);
  rig_.machine().begin_capture(stream, CaptureMode::relaxed);
  try {
    runtime().migrate(requests);
    FAIL() << "a stream captures";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_TRUE(says(error, "20 of 20 requests")) << error.what();
    EXPECT_TRUE(says(error, "requests 0, 1, 2, 3, 4, 5, 6, 7 and 12 more: ")) << error.what();
    EXPECT_EQ(error.group()->total.outcome, Outcome::failed);
    EXPECT_EQ(error.group()->total.bytes_moved, 0u);
  }
  EXPECT_THROW(rig_.machine().end_capture(stream), Error);
  rig_.machine().destroy_stream(stream);
  expect_whole();
}

TEST_F(GroupMove, ProgressIsThatOfAllRequestsAndComesBeforeTheCallReturns) {
  std::vector<MoveRequest> requests;
  for (int i = 0; i < 4; ++i) requests.push_back({add(gpu(i % 2)), gpu(1 - i % 2)});
  std::vector<MigrationProgress> seen;
  MigrateOptions options;
  options.on_progress = [&](const MigrationProgress& progress) { seen.push_back(progress); };
  runtime().migrate(requests, options);
  ASSERT_EQ(seen.size(), 8u) << "one for each chunk";
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].chunks, 8);
    EXPECT_EQ(seen[i].bytes_asked, 4 * size_bytes);
    EXPECT_EQ(seen[i].chunks_moved, static_cast<int>(i) + 1);
    EXPECT_EQ(seen[i].bytes_moved, (i + 1) * chunk_bytes);
  }
}

TEST_F(GroupMove, ACallbackMayMoveAGroupItself) {
  std::uint64_t *one = add(gpu(0)), *two = add(gpu(0));
  std::atomic<int> inner{0};
  MigrateOptions options;
  options.on_progress = [&](const MigrationProgress& progress) {
    if (progress.chunks_moved != 1) return;
    MigrateOptions nested;
    nested.on_progress = [&](const MigrationProgress&) { ++inner; };
    runtime().migrate(std::vector<MoveRequest>{{two, gpu(1)}}, nested);
  };
  runtime().migrate(std::vector<MoveRequest>{{one, gpu(1)}}, options);
  EXPECT_EQ(rig_.place(two), gpu(1));
  const Migration last = runtime().migrate_async(one, gpu(0), {.scope = StopScope::hold});
  last.wait();
  std::atomic<bool> called{false};
  last.on_done([&] { called = true; });
  while (!called) std::this_thread::yield();
  EXPECT_EQ(inner, 2);
  expect_whole();
}

TEST_F(GroupMove, AHookMayNotMoveItsOwnAllocationInAGroup) {
  std::uint64_t *one = add(gpu(0)), *two = add(gpu(0));
  ErrorKind kind = ErrorKind::no_driver;
  const MoveHookRegistration hook = runtime().on_move(
      one, {[&](const MoveEvent& event) {
              if (event.offset != 0) return;
              kind = kind_of_error([&] {
                runtime().migrate(std::vector<MoveRequest>{{two, gpu(1)}, {one, gpu(1)}});
              });
            },
            {}});
  runtime().migrate(one, gpu(1));
  EXPECT_EQ(kind, ErrorKind::invalid_argument);
  EXPECT_EQ(rig_.place(two), gpu(0));
}

// Threads move overlapping sets in any order, and free one of the allocations beside.
TEST_F(GroupMove, OfManyThreadsEndsInAnyOrder) {
  for (int i = 0; i < 6; ++i) add(gpu(i % 2));
  in_threads([&](int, const std::vector<MoveRequest>& requests) {
    std::thread freer([&] { runtime().free(requests.back().pointer); });
    try {
      runtime().migrate(requests);
    } catch (...) {
      freer.join();
      throw;
    }
    freer.join();
  });
  expect_whole();
}

}  // namespace
}  // namespace vma
