// Goal: several allocations that are to move in full or not at all have all their target memory
// before anything is stopped or a hook is called; if one of them gets none or may not move, nothing
// moves and the memory is given back; otherwise they share stops as any group does. Method: a
// runtime on a simulated machine whose second GPU is small; each test with a hold, and at gates.

#include "runtime/runtime_parts.hpp"
#include "unit/runtime/groups/group_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t room_chunks = 16;

RuntimeOptions with_small_gpu() {
  RuntimeOptions options = patient();
  options.policy = "stay_put";
  options.capacity_bytes[gpu(1)] = room_chunks * chunk_bytes;
  options.cache_bytes_per_gpu = 0;
  return options;
}

/// How the group moves: the call that waits, with a hold; in the background with a hold; at gates.
enum class Form { waiting, held, gates };

class AllOrNothing : public GroupRig, public testing::WithParamInterface<Form> {
 protected:
  AllOrNothing() : GroupRig(with_small_gpu()) {
    if (GetParam() == Form::gates) {
      for (int gpu = 0; gpu < rig_.gpus(); ++gpu)
        attached_.emplace_back(runtime(), rig_.stream(gpu));
    }
    options_.all_or_nothing = true;
    if (GetParam() == Form::held) options_.scope = StopScope::hold;
    options_.max_stall = std::chrono::seconds(1);
  }
  ~AllOrNothing() override { attached_.clear(); }

  std::vector<MoveRequest> requests_to(Place to, int allocations) {
    std::vector<MoveRequest> requests;
    for (int i = 0; i < allocations; ++i) requests.push_back({add(gpu(0)), to});
    return requests;
  }
  GroupReport move(const std::vector<MoveRequest>& requests) {
    if (GetParam() == Form::waiting) return runtime().migrate(requests, options_);
    return runtime().migrate_async(requests, options_).wait();
  }
  /// The error of a move of which nothing happened.
  Error refused(const std::vector<MoveRequest>& requests) {
    const RuntimeStats before = runtime().stats();
    std::optional<Error> refusal;
    try {
      move(requests);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      refusal = error;
    }
    EXPECT_EQ(runtime().stats().bytes_moved, before.bytes_moved);
    EXPECT_EQ(runtime().stats().gates, before.gates);
    EXPECT_EQ(used_bytes(), used_bytes_of(before)) << "the memory was given back";
    const GroupReport* const group = refusal->group();
    EXPECT_EQ(group->failed(), requests.size());
    EXPECT_EQ(group->total.chunks_moved, 0);
    EXPECT_EQ(group->total.outcome, Outcome::failed);
    EXPECT_EQ(group->total.stall.count, 0u);
    expect_whole();
    return *refusal;
  }
  static std::size_t used_bytes_of(const RuntimeStats& stats) {
    std::size_t bytes = 0;
    for (const RuntimeStats::PlaceStats& place : stats.places) {
      if (place.at == gpu(1)) bytes += place.allocated_bytes + place.cached_bytes;
    }
    return bytes;
  }
  std::size_t used_bytes() {
    parts_of(runtime()).machinery->memory.chunks().slow_calls().await_empty();  // It gives memory
                                                                                // back.
    return used_bytes_of(runtime().stats());
  }
  static ErrorKind kind_of(const Error& error, std::size_t request) {
    return error.group()->requests.at(request).error->kind();
  }

  MigrateOptions options_;
  std::vector<AttachedStream> attached_;
};

INSTANTIATE_TEST_SUITE_P(Forms, AllOrNothing,
                         testing::Values(Form::waiting, Form::held, Form::gates));

TEST_P(AllOrNothing, TooLittleRoomForAllMovesNothing) {
  const std::vector<MoveRequest> requests = requests_to(gpu(1), room_chunks / 2 + 1);
  EXPECT_EQ(refused(requests).kind(), ErrorKind::out_of_memory);
  for (const MoveRequest& one : requests) EXPECT_EQ(rig_.place(one.pointer), gpu(0));
  // Without the option, what has room moves. At gates, the first of them may make room for the
  // last.
  options_.all_or_nothing = false;
  try {
    move(requests);
    EXPECT_EQ(GetParam(), Form::gates) << "there is no room for all";
  } catch (const Error& error) {
    EXPECT_EQ(error.group()->total.outcome, Outcome::partly);
  }
  expect_whole();
}

TEST_P(AllOrNothing, WhatHasRoomMovesTogether) {
  const int count = room_chunks / 2 - 2;
  const GroupReport report = move(requests_to(gpu(1), count));
  EXPECT_EQ(report.total.outcome, Outcome::done);
  EXPECT_EQ(report.total.chunks_moved, 2 * count);
  if (GetParam() == Form::gates) {
    EXPECT_LT(report.total.stall.count, static_cast<std::uint64_t>(count)) << "shared gates";
  } else {
    EXPECT_EQ(report.total.stall.count, 1u) << "one hold";
  }
  expect_whole();
}

TEST_P(AllOrNothing, OneThatMayNotMoveKeepsTheOthers) {
  std::vector<MoveRequest> requests = requests_to(gpu(1), 4);
  requests.push_back({add(host(0)), gpu(0)});
  {
    const Pin pin = runtime().pin(requests[2].pointer);
    const Error error = refused(requests);
    EXPECT_EQ(error.kind(), ErrorKind::pinned);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(kind_of(error, i), i == 2 ? ErrorKind::pinned : ErrorKind::cancelled);
    }
  }
  EXPECT_EQ(move(requests).total.outcome, Outcome::done);
  expect_whole();
}

TEST_P(AllOrNothing, RoutesInAllDirectionsHaveTheirMemory) {
  std::uint64_t *one = add(gpu(0)), *two = add(gpu(1)), *three = add(host(0));
  const GroupReport report =
      move({{one, gpu(1), 0, 8}, {one, host(0), chunk_bytes, 8}, {two, gpu(0)}, {three, gpu(1)}});
  EXPECT_EQ(report.total.outcome, Outcome::done);
  EXPECT_EQ(runtime().where(one).at(0).at, gpu(1));
  EXPECT_EQ(runtime().where(one).at(1).at, host(0));
  EXPECT_EQ(rig_.place(two), gpu(0));
  EXPECT_EQ(rig_.place(three), gpu(1));
  expect_whole();
}

// Its memory is there as that of the others, though it moves alone.
TEST_P(AllOrNothing, HooksAreCalledOnlyIfAllCanBegin) {
  std::vector<MoveRequest> requests = requests_to(gpu(1), room_chunks / 2 + 1);
  std::atomic<int> calls{0};
  const MoveHookRegistration hook =
      runtime().on_move(requests[1].pointer, {[&](const MoveEvent&) { ++calls; }, {}});
  EXPECT_EQ(refused(requests).kind(), ErrorKind::out_of_memory);
  EXPECT_EQ(calls, 0);
  requests.resize(3);
  EXPECT_EQ(move(requests).total.outcome, Outcome::done);
  EXPECT_EQ(calls, 2);
  expect_whole();
}

TEST_P(AllOrNothing, ADuplicateNeedsNoMemoryOfItsOwn) {
  std::vector<MoveRequest> requests = requests_to(gpu(1), 5);
  requests.insert(requests.end(), requests.begin(), requests.end());
  const GroupReport report = move(requests);
  EXPECT_EQ(report.total.outcome, Outcome::done);
  EXPECT_EQ(report.total.chunks_moved, 10);
  expect_whole();
}

// A clean copy at the target is taken, too, and goes back where it was if nothing moves.
TEST_P(AllOrNothing, CleanCopiesAreTargets) {
  std::uint64_t* copied = add(host(0));
  std::uint64_t* other = add(gpu(0));
  const ReadOnly read_only = runtime().read_only(copied);
  MigrateOptions keep;
  keep.keep_clean_copy = true;
  runtime().migrate(copied, gpu(0), keep);
  const std::vector<MoveRequest> requests{{copied, host(0)}, {other, gpu(1)}};
  {
    const Pin pin = runtime().pin(other);
    EXPECT_EQ(refused(requests).kind(), ErrorKind::pinned);
  }
  const GroupReport report = move(requests);
  EXPECT_EQ(report.total.bytes_remapped, size_bytes);
  EXPECT_EQ(runtime().stats().copies_dropped, 0u);
  expect_whole();
}

TEST_P(AllOrNothing, OneRequestHasItsMemoryFirst) {
  std::uint64_t* large = rig_.alloc((room_chunks + 1) * chunk_bytes, gpu(0), chunk_bytes);
  options_.scope = GetParam() == Form::gates ? StopScope::attached : StopScope::hold;
  const auto body = [&] {
    if (GetParam() == Form::waiting) {
      runtime().migrate(large, gpu(1), options_);
    } else {
      runtime().migrate_async(large, gpu(1), options_).wait();
    }
  };
  EXPECT_EQ(kind_of_error(body), ErrorKind::out_of_memory);
  EXPECT_EQ(rig_.place(large), gpu(0));
}

/// A migration that a hook holds up, with the claim of its allocation.
class Claimed {
 public:
  Claimed(Runtime& runtime, void* pointer, Place to)
      : hook_(runtime.on_move(pointer, {[this](const MoveEvent& event) {
                                          if (event.offset != 0 || ++calls_ > 1) return;
                                          reached_.set_value();
                                          go_on_.get_future().wait();
                                        },
                                        {}})),
        migration_(runtime.migrate_async(pointer, to)) {
    reached_.get_future().wait();
  }
  const Migration& go_on() {
    go_on_.set_value();
    return migration_;
  }

 private:
  std::promise<void> reached_, go_on_;
  std::atomic<int> calls_{0};
  MoveHookRegistration hook_;
  Migration migration_;
};

class AllOrNothingAtGates : public AllOrNothing {};
INSTANTIATE_TEST_SUITE_P(Forms, AllOrNothingAtGates, testing::Values(Form::gates));

TEST_P(AllOrNothingAtGates, NothingMovesWhileAClaimIsAwaited) {
  std::vector<MoveRequest> requests = requests_to(gpu(1), 3);
  Claimed claimed(runtime(), requests[2].pointer, host(0));
  const MigrationGroup group = runtime().migrate_async(requests, options_);
  EXPECT_FALSE(group.wait_for(std::chrono::milliseconds(20)));
  EXPECT_EQ(rig_.place(requests[0].pointer), gpu(0));
  claimed.go_on().wait();
  EXPECT_EQ(group.wait().total.outcome, Outcome::done);
  for (const MoveRequest& one : requests) EXPECT_EQ(rig_.place(one.pointer), gpu(1));
  expect_whole();
}

TEST_P(AllOrNothingAtGates, ACancellationInTheReservationMovesNothing) {
  std::vector<MoveRequest> requests = requests_to(gpu(1), 3);
  Claimed claimed(runtime(), requests[2].pointer, host(0));
  const std::size_t used = used_bytes();
  const MigrationGroup group = runtime().migrate_async(requests, options_);
  group.request(2).cancel();
  for (std::size_t other = 0; other < 2; ++other) {
    EXPECT_TRUE(group.request(other).wait_for(std::chrono::seconds(60))) << "the claim is not free";
  }
  claimed.go_on().wait();
  try {
    group.wait();
    ADD_FAILURE() << "it was cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::cancelled);
    EXPECT_EQ(error.group()->failed(), 3u);
  }
  EXPECT_EQ(used_bytes(), used);
  EXPECT_EQ(rig_.place(requests[0].pointer), gpu(0));
  expect_whole();
}

TEST_P(AllOrNothingAtGates, AFreeInTheReservationMovesNothing) {
  std::vector<MoveRequest> requests = requests_to(gpu(1), 2);
  std::uint64_t* freed = rig_.alloc(size_bytes, gpu(0));
  requests.push_back({freed, gpu(1)});
  std::optional<Claimed> claimed(std::in_place, runtime(), freed, host(0));
  const MigrationGroup group = runtime().migrate_async(requests, options_);
  std::thread freer([&] { runtime().free(freed); });
  const bool others_ended = group.request(0).wait_for(std::chrono::seconds(60));
  claimed->go_on();
  freer.join();
  EXPECT_TRUE(others_ended) << "before the claim was free";
  EXPECT_TRUE(group.wait_for(std::chrono::seconds(60)));
  EXPECT_EQ(group.report().total.chunks_moved, 0);
  EXPECT_EQ(group.report().failed(), 3u);
  EXPECT_EQ(rig_.place(requests[0].pointer), gpu(0));
  expect_whole();
}

// Both workers are busy while another call moves what is reserved.
TEST_P(AllOrNothingAtGates, AMoveInBetweenChangesOnlyWhereItComesFrom) {
  std::vector<MoveRequest> requests = requests_to(gpu(1), 3);
  std::promise<void> reached[2], go_on;
  const std::shared_future<void> may_go_on = go_on.get_future().share();
  std::vector<MoveHookRegistration> hooks;
  for (std::size_t i = 0; i < 2; ++i) {
    hooks.push_back(runtime().on_move(requests[i].pointer, {[&, i](const MoveEvent& event) {
                                                              if (event.offset != 0) return;
                                                              reached[i].set_value();
                                                              may_go_on.wait();
                                                            },
                                                            {}}));
  }
  const MigrationGroup group = runtime().migrate_async(requests, options_);
  for (std::promise<void>& hook : reached) hook.get_future().wait();
  runtime().migrate(requests[2].pointer, 0, 8, gpu(1));  // Its memory is not needed any more.
  runtime().migrate(requests[2].pointer, chunk_bytes, 8, host(0));
  go_on.set_value();
  EXPECT_EQ(group.wait().total.outcome, Outcome::done);
  for (const MoveRequest& one : requests) EXPECT_EQ(rig_.place(one.pointer), gpu(1));
  EXPECT_EQ(used_bytes(), 3 * size_bytes);
  expect_whole();
}

TEST_P(AllOrNothingAtGates, OfManyThreadsEndsInAnyOrder) {
  for (int i = 0; i < 6; ++i) add(gpu(0));
  in_threads([&](int round, std::vector<MoveRequest>& requests) {
    void* own = requests.back().pointer;
    MigrateOptions options = options_;
    if (round % 3 == 0) options.scope = StopScope::hold;
    try {
      if (round % 3 == 1) {
        requests.pop_back();
        runtime().free(own);
        runtime().migrate(requests, options);
        return;
      }
      const MigrationGroup group = runtime().migrate_async(requests, options);
      if (round % 2 == 0) group.cancel();
      runtime().free(own);
      group.wait();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
    }
  });
  expect_whole();
}

}  // namespace
}  // namespace vma
