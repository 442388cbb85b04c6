#pragma once

/// For programs on Boost.Asio 1.81 or newer: `co_await vma::async_wait(migration, use_awaitable)`.
/// Nothing else of the library needs Boost.

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

/// One handler that waits for one migration; owned by the one that completes it.
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
      static_cast<void>(wait->migration_.done());  // Throws where it stands for none.
      if (wait->slot_.is_connected()) {
        wait->slot_.assign([migration = wait->migration_](cancellation_type type) {
          // Chunks that have moved stay moved, which `total` alone rules out.
          const auto served = cancellation_type::terminal | cancellation_type::partial;
          if ((type & served) != cancellation_type::none) migration.cancel();
        });
      }
      wait->migration_.on_done([wait] { complete(wait, nullptr); });
    } catch (...) {  // Or there is no memory to remember the handler.
      complete(wait, std::current_exception());
    }
  }

 private:
  /// Hands over to the handler's executor; only there may its slot be touched.
  static void complete(const std::shared_ptr<MigrationWait>& wait, std::exception_ptr failure) {
    // Held until `post` has returned: `run` may return, and its context go, the moment it has no
    // work.
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

/// Completes on the token's executor once the migration has ended: with its report, and with what
/// it failed with or null. The executor has work until then. The token's cancellation slot cancels
/// the migration, which then completes with Error{cancelled}; total cancellation is not on offer.
///
/// Requires: the executor's context outlives the migration, as it does once `run` has returned by
/// itself.
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
