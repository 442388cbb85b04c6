// Goal: calls in a forked child fail at once, because the runtime belongs to the parent, and never
// wait for threads that exist only in the parent. Method: children with an alarm, forked while
// moves are in progress and while other threads hold the locks of an allocation.
#include "memory/move_claim.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/sanitizer.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <vma/runtime.hpp>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace vma {
namespace {

/// The number of calls refused with the right error; -1 if one throws anything else.
int refused(const std::vector<std::function<void()>>& calls) {
  int count = 0;
  for (const auto& call : calls) {
    try {
      call();
    } catch (const Error& error) {
      count += error.kind() == ErrorKind::driver_gone ? 1 : 0;
    } catch (...) {
      return -1;
    }
  }
  return count;
}

/// The child's exit status; -1 if a signal ended it, as the alarm does.
int status_of(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class ForkTest : public testing::Test {
 protected:
  void SetUp() override {
    if (under_thread_sanitizer) GTEST_SKIP() << "no fork under TSan";
  }
  Runtime& runtime() { return rig_.runtime(); }

  RuntimeRig rig_{"test-2", patient()};
};

TEST_F(ForkTest, AMigrationIsRefusedInTheChildAndEndsInTheParent) {
  const AttachedStream attached(runtime(), rig_.stream(0));
  std::uint64_t* words = rig_.alloc(chunk_bytes, gpu(0));
  std::uint64_t* others = rig_.alloc(chunk_bytes, gpu(0));
  Migration pending, ended = runtime().migrate_async(others, gpu(1));
  ended.wait();
  {
    // The move cannot begin while somebody else has the claim.
    const MoveClaim claim =
        MoveClaim::take(parts_of(runtime()).machinery->memory.require(words, "test"));
    pending = runtime().migrate_async(words, gpu(1));
    for (Migration* migration : {&pending, &ended}) {
      const std::vector<std::function<void()>> calls{
          [&] { migration->wait(); },        [&] { migration->wait_for(std::chrono::hours(1)); },
          [&] { migration->done(); },        [&] { migration->cancel(); },
          [&] { migration->report(); },      [&] { migration->error(); },
          [&] { migration->on_done([] {}); }};
      EXPECT_EQ(status_of([&] { return refused(calls); }), static_cast<int>(calls.size()));
    }
    EXPECT_EQ(status_of([&] {
                pending = Migration();
                ended = Migration();
                return 7;
              }),
              7);
    EXPECT_FALSE(pending.done());
  }
  EXPECT_EQ(pending.wait().outcome, Outcome::done);
  EXPECT_EQ(rig_.place(words), gpu(1));
}

TEST_F(ForkTest, WhatTheChildHasOfTheRuntimeEndsWithoutAWord) {
  std::uint64_t* words = rig_.alloc(chunk_bytes, gpu(0));
  std::uint64_t* on_host = rig_.alloc(chunk_bytes, host(0));
  std::uint64_t* read = rig_.alloc(chunk_bytes, gpu(0));
  const MoveHooks hooks{[](const MoveEvent&) {}, {}};
  std::optional<AttachedStream> attached, to_one;
  attached.emplace(runtime(), rig_.stream(0));
  to_one.emplace(runtime(), rig_.stream(1), words);
  std::optional<Pin> pin(runtime().pin(words));
  std::optional<HostView> view(runtime().host_view(on_host, 8));
  std::optional<ReadOnly> read_only(runtime().read_only(read));
  std::optional<MoveHookRegistration> hook(runtime().on_move(words, hooks));
  // Locks held by a thread of the parent are never released in the child.
  Memory& memory = parts_of(runtime()).machinery->memory;
  const auto ends = [&] {
    attached.reset(), to_one.reset(), pin.reset(), view.reset(), read_only.reset(), hook.reset();
    return 7;
  };
  {
    const MutexLock first(memory.require(words, "test")->operations());
    const MutexLock second(memory.require(on_host, "test")->operations());
    const MutexLock third(memory.require(read, "test")->operations());
    EXPECT_EQ(status_of(ends), 7);
  }
  // The parent is as before.
  EXPECT_EQ(kind_of_error([&] { runtime().migrate(words, gpu(1)); }), ErrorKind::pinned);
  EXPECT_EQ(kind_of_error([&] { runtime().attach(rig_.stream(0)); }), ErrorKind::invalid_argument);
  EXPECT_EQ(ends(), 7);
  EXPECT_EQ(runtime().migrate(words, gpu(1)).outcome, Outcome::done);
}

TEST_F(ForkTest, TheChildMayEndTheRuntimeFirstAndOpenItsOwn) {
  auto rig = std::make_unique<RuntimeRig>();
  std::uint64_t* words = rig->alloc(chunk_bytes, gpu(0));
  std::optional<Pin> pin(rig->runtime().pin(words));
  std::optional<MoveHookRegistration> hook(
      rig->runtime().on_move(words, {[](const MoveEvent&) {}, {}}));
  EXPECT_EQ(status_of([&] {
              rig.reset();
              pin.reset();
              hook.reset();
              RuntimeOptions options;
              options.driver = "sim:test-2";
              Runtime mine(options);
              mine.migrate(mine.alloc(chunk_bytes, gpu(0)), gpu(1));
              return 7;
            }),
            7);
  pin.reset();
  hook.reset();
}

TEST_F(ForkTest, EveryCallIsRefusedInTheChild) {
  std::uint64_t* words = rig_.alloc(chunk_bytes, gpu(0));
  const Stream stream = rig_.stream(0);
  std::byte byte{};
  const std::vector<std::function<void()>> calls{
      [&] { runtime().alloc(1); },
      [&] { runtime().free(words); },
      [&] { runtime().free_async(words, stream); },
      [&] { runtime().migrate(words, gpu(1)); },
      [&] { runtime().migrate_async(words, gpu(1)); },
      [&] { runtime().park("x"); },
      [&] { runtime().resume("x"); },
      [&] { runtime().is_parked("x"); },
      [&] { runtime().attach(stream); },
      [&] { runtime().detach(stream); },
      [&] { static_cast<void>(runtime().pin(words)); },
      [&] { static_cast<void>(runtime().read_only(words)); },
      [&] { runtime().note_export(words); },
      [&] { runtime().advise(words, 8, {}); },
      [&] { runtime().where(words); },
      [&] { runtime().size(words); },
      [&] { runtime().read(words, std::span(&byte, 1)); },
      [&] { runtime().write(words, std::span<const std::byte>(&byte, 1)); },
      [&] { static_cast<void>(runtime().host_view(words, 1)); },
      [&] { runtime().reserve(gpu(0), 1); },
      [&] { runtime().trim(gpu(0)); },
      [&] { runtime().set_capacity(gpu(0), 1); },
      [&] { runtime().drain(gpu(0)); },
      [&] { runtime().refill(gpu(0)); },
      [&] { runtime().explain(words); },
      [&] { runtime().policy(); },
      [&] { runtime().scheduler_stats(); },
      [&] { runtime().make_stream(gpu(0)); },
      [&] { runtime().destroy_stream(stream); },
      [&] { runtime().synchronize(stream); },
      [&] { runtime().record_launch(words, nullptr, gpu(0)); },
      [&] { runtime().places(); },
      [&] { runtime().stats(); },
      [&] { runtime().calibrate(); }};
  EXPECT_EQ(status_of([&] {
              runtime().record_use(words, 8, gpu(0));
              const int count = refused(calls);
              runtime().shutdown();
              return count;
            }),
            static_cast<int>(calls.size()));
}

}  // namespace
}  // namespace vma
