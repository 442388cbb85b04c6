#pragma once

#include "base/executor.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>

namespace vma {

/// The thread that serves importers, with its context.
class ShareThread {
 public:
  /// Throws: Error{busy} if the system cannot start a thread.
  ShareThread();
  ~ShareThread();
  ShareThread(const ShareThread&) = delete;
  ShareThread& operator=(const ShareThread&) = delete;

  boost::asio::io_context& context() noexcept { return context_; }
  /// Runs `body` on the thread and waits for it. Throws: what `body` throws; std::bad_alloc before.
  /// Requires: `end` is not called meanwhile.
  void run_there(const std::function<void()>& body);
  /// No handler runs afterwards. Idempotent.
  void end() noexcept;

 private:
  void run() noexcept;

  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      context_.get_executor()};
  ThreadedExecutor threads_;
  std::unique_ptr<Task> task_;  // Last: it uses all of the above.
};

}  // namespace vma
