// Goal: a program on Asio can wait for a move with co_await or a callback, on its own executor, and
// can cancel it. Method: an io_context that runs on the test's thread.
#include <vma/asio.hpp>

#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <atomic>
#include <future>
#include <optional>
#include <thread>

namespace vma {
namespace {

namespace asio = boost::asio;

constexpr int chunks = 4;

class AsioTest : public testing::Test {
 protected:
  AsioTest() : attached_(rig_.runtime(), rig_.stream(0)) {
    words_ = rig_.alloc(chunks * chunk_bytes, gpu(0), chunk_bytes);
    rig_.write(words_, chunks * chunk_bytes / 8, 7);
  }

  Runtime& runtime() { return rig_.runtime(); }
  /// Each chunk waits before it moves until `go_on` is called.
  MoveHookRegistration wait_before_moves() {
    return runtime().on_move(words_, {[this](const MoveEvent&) { may_go_on_.wait(); }, {}});
  }
  void go_on() { going_on_.set_value(); }
  template <typename Handler>
  auto on_context(Handler handler) {
    return asio::bind_executor(context_, std::move(handler));
  }

  RuntimeRig rig_;
  AttachedStream attached_;
  std::uint64_t* words_ = nullptr;
  asio::io_context context_;

 private:
  std::promise<void> going_on_;
  std::shared_future<void> may_go_on_ = going_on_.get_future().share();
};

asio::awaitable<MigrationReport> move(Runtime& runtime, void* pointer, Place to,
                                      MigrateOptions options = {}) {
  co_return co_await async_wait(runtime.migrate_async(pointer, to, options), asio::use_awaitable);
}

TEST_F(AsioTest, ACoroutineGetsTheReport) {
  std::optional<MigrationReport> report;
  std::thread::id resumed;
  const auto there_and_back = [&]() -> asio::awaitable<void> {
    co_await move(runtime(), words_, gpu(1));
    report = co_await move(runtime(), words_, host(0));
    resumed = std::this_thread::get_id();
  };
  auto ended = asio::co_spawn(context_, there_and_back, asio::use_future);
  context_.run();
  ended.get();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->outcome, Outcome::done);
  EXPECT_EQ(report->chunks_moved, chunks);
  EXPECT_EQ(resumed, std::this_thread::get_id()) << "not on the runtime's thread";
  EXPECT_EQ(rig_.place(words_), host(0));
}

TEST_F(AsioTest, WhatTheMoveFailedWithIsThrownIntoTheCoroutine) {
  runtime().migrate_async(words_, host(0)).wait();
  MigrateOptions live;
  live.mode = Mode::live;  // Live moves from host memory do not exist.
  auto ended = asio::co_spawn(context_, move(runtime(), words_, gpu(0), live), asio::use_future);
  context_.run();
  EXPECT_EQ(kind_of_error([&] { ended.get(); }), ErrorKind::unsupported);
}

TEST_F(AsioTest, TheExecutorHasWorkUntilTheMoveHasEnded) {
  const MoveHookRegistration hook = wait_before_moves();
  bool completed = false;
  async_wait(runtime().migrate_async(words_, gpu(1)),
             on_context([&](std::exception_ptr failure, const MigrationReport& report) {
               completed = !failure && report.chunks_moved == chunks;
             }));
  // After this handler the context has nothing to do, and the move has only begun.
  asio::post(context_, [this] { go_on(); });
  context_.run();
  EXPECT_TRUE(completed);
}

TEST_F(AsioTest, AMoveThatHasEndedCompletesToo) {
  const Migration migration = runtime().migrate_async(words_, gpu(1));
  migration.wait();
  bool completed = false, at_once = true;
  async_wait(migration, on_context([&](std::exception_ptr failure, const MigrationReport&) {
               completed = !failure && !at_once;
             }));
  at_once = false;
  context_.run();
  EXPECT_TRUE(completed);
}

TEST_F(AsioTest, ACancelledWaitCancelsTheMove) {
  const MoveHookRegistration hook = wait_before_moves();
  asio::cancellation_signal signal;
  auto ended = asio::co_spawn(context_, move(runtime(), words_, gpu(1)),
                              asio::bind_cancellation_slot(signal.slot(), asio::use_future));
  asio::post(context_, [&] {
    asio::post(context_, [&] {  // After the coroutine's first step.
      signal.emit(asio::cancellation_type::terminal);
      go_on();
    });
  });
  context_.run();
  try {
    ended.get();
    FAIL() << "it was not cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::cancelled);
  }
  EXPECT_EQ(rig_.place(words_ + (chunks - 1) * chunk_bytes / 8), gpu(0));
}

TEST_F(AsioTest, TotalCancellationAloneIsNotServed) {
  const MoveHookRegistration hook = wait_before_moves();
  asio::cancellation_signal signal;
  bool done = false;
  async_wait(runtime().migrate_async(words_, gpu(1)),
             asio::bind_cancellation_slot(
                 signal.slot(), on_context([&](std::exception_ptr failure, MigrationReport) {
                   done = !failure;
                 })));
  signal.emit(asio::cancellation_type::total);
  go_on();
  context_.run();
  EXPECT_TRUE(done);
  signal.emit(asio::cancellation_type::terminal);  // Nothing is left to cancel.
  EXPECT_EQ(rig_.place(words_), gpu(1));
}

TEST_F(AsioTest, NoMigrationFailsWhereOthersComplete) {
  bool called = false;
  std::exception_ptr found;
  async_wait(Migration(), on_context([&](std::exception_ptr failure, const MigrationReport&) {
               called = true;
               found = failure;
             }));
  EXPECT_FALSE(called);
  context_.run();
  ASSERT_TRUE(found);
  EXPECT_EQ(kind_of_error([&] { std::rethrow_exception(found); }), ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace vma
