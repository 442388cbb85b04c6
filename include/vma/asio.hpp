#pragma once

/// For programs on Boost.Asio 1.81 or newer: `co_await vma::async_wait(migration, use_awaitable)`.
/// Nothing else in the library needs Boost.

#include <vma/migration.hpp>

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <exception>
#include <memory>
#include <utility>

namespace vma::inline v1 {

/// A handler that waits for one migration. Owned by the callback that completes it.
template <typename Handler>
class MigrationWait {
 public:
  MigrationWait(Migration migration, Handler handler)
      : work_(boost::asio::make_work_guard(handler)),
        slot_(boost::asio::get_associated_cancellation_slot(handler)),
        migration_(std::move(migration)),
        handler_(std::move(handler)) {}

  static void start(std::shared_ptr<MigrationWait> wait) {
    using boost::asio::cancellation_type;
    try {
      static_cast<void>(wait->migration_.done());  // Throws if it refers to no migration.
      if (wait->slot_.is_connected()) {
        wait->slot_.assign([migration = wait->migration_](cancellation_type type) {
          // Chunks that have moved stay moved. Only `total` cancellation would forbid that.
          const auto served = cancellation_type::terminal | cancellation_type::partial;
          if ((type & served) != cancellation_type::none) migration.cancel();
        });
      }
      wait->migration_.on_done([wait] { complete(wait, nullptr); });
    } catch (...) {  // Also if there is no memory to store the handler.
      complete(wait, std::current_exception());
    }
  }

 private:
  /// Continues on the handler's executor: only there may the cancellation slot be accessed.
  static void complete(const std::shared_ptr<MigrationWait>& wait, std::exception_ptr failure) {
    // Kept until `post` has returned: without work, `run` may return and its context be destroyed.
    const auto work = wait->work_;
    const auto allocator = boost::asio::get_associated_allocator(wait->handler_);
    const auto executor = wait->work_.get_executor();
    boost::asio::post(executor, boost::asio::bind_allocator(
                                    allocator, [wait, failure] { wait->finish(failure); }));
  }

  void finish(std::exception_ptr failure) {
    if (slot_.is_connected()) slot_.clear();
    MigrationReport report;
    if (!failure) {
      failure = migration_.error();
      report = migration_.report();
    }
    Handler handler = std::move(handler_);
    work_.reset();
    std::move(handler)(failure, std::move(report));
  }

  boost::asio::executor_work_guard<boost::asio::associated_executor_t<Handler>> work_;
  boost::asio::associated_cancellation_slot_t<Handler> slot_;
  Migration migration_;
  Handler handler_;
};

/// Completes on the token's executor when the migration has ended, with its error (or null) and its
/// report. The executor has outstanding work until then. The token's cancellation slot cancels the
/// migration, which then completes with Error{cancelled}. Total cancellation is not supported.
///
/// Requires: the executor's context outlives the migration. That is so if `run` returns by itself.
template <typename CompletionToken>
auto async_wait(Migration migration, CompletionToken&& token) {
  return boost::asio::async_initiate<CompletionToken, void(std::exception_ptr, MigrationReport)>(
      [](auto handler, Migration waited_for) {
        using Wait = MigrationWait<decltype(handler)>;
        Wait::start(std::make_shared<Wait>(std::move(waited_for), std::move(handler)));
      },
      token, std::move(migration));
}

}  // namespace vma::inline v1
