#include "sharing/share_thread.hpp"

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/process_exit.hpp"

#include <boost/asio/post.hpp>

#include <exception>

namespace vma {

ShareThread::ShareThread() : task_(threads_.spawn("vmart share", [this] { run(); })) {}

ShareThread::~ShareThread() {
  end();
}

void ShareThread::end() noexcept {
  if (!task_) return;
  context_.stop();
  task_->join();
  task_.reset();
}

/// An exception from a handler loses that handler, and neither the thread nor the process.
void ShareThread::run() noexcept {
  while (!context_.stopped()) {
    try {
      context_.run();
    } catch (const std::exception& error) {
      log(LogLevel::error, "sharing continues after an error: {}", error.what());
    }
    ProcessExit::hold_back();
  }
}

void ShareThread::run_there(const std::function<void()>& body) {
  Mutex mutex;
  Condition ended;
  bool done = false;
  std::exception_ptr failure;
  boost::asio::post(context_, [&] {
    try {
      body();
    } catch (...) {
      failure = std::current_exception();
    }
    const MutexLock lock(mutex);
    done = true;
    ended.notify_all();
  });
  MutexLock lock(mutex);
  ended.wait(lock, [&] { return done; });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace vma
