#include "migrate/migration/callbacks.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/process_exit.hpp"

#include <exception>
#include <utility>

namespace vma {
namespace {
thread_local int callbacks_running = 0;
thread_local const Callbacks* callbacks_here = nullptr;  // Whose thread this is.
}  // namespace

bool Callbacks::runs_here() noexcept {
  return callbacks_running > 0;
}

void Callbacks::start() {
  const MutexLock lock(mutex_);
  if (stopping_ || task_) return;
  task_ = driver_.executor().spawn("vmart callback", [this] { run(); });
}

void Callbacks::post(Posts callbacks) noexcept {
  if (callbacks.empty()) return;
  {
    const MutexLock lock(mutex_);
    if (!stopping_) {
      VMART_CHECK(task_ != nullptr, "callbacks are posted after their thread has started");
      posted_ += callbacks.size();
      queue_.splice(queue_.end(), callbacks);
      changed_.notify_all();
      return;
    }
  }
  for (const std::function<void()>& callback : callbacks) call(callback);
}

void Callbacks::post(std::function<void()> callback) {
  Posts posts;
  posts.push_back(std::move(callback));
  start();
  post(std::move(posts));
}

void Callbacks::await_posted() {
  if (callbacks_here == this) return;
  MutexLock lock(mutex_);
  const std::uint64_t last = posted_;
  changed_.wait(lock, [&]() VMART_NO_THREAD_ANALYSIS { return run_ >= last; });
}

void Callbacks::call(const std::function<void()>& callback) noexcept {
  ++callbacks_running;
  try {
    callback();
    --callbacks_running;
    return;
  } catch (const std::exception& error) {
    log(LogLevel::error, "a callback threw: {}", error.what());
  } catch (...) {
    log(LogLevel::error, "a callback threw an exception of an unknown type");
  }
  --callbacks_running;
  ++failed_;
}

void Callbacks::run() {
  callbacks_here = this;
  MutexLock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&]() VMART_NO_THREAD_ANALYSIS { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Posts next;
    next.splice(next.end(), queue_, queue_.begin());
    lock.unlock();
    ProcessExit::hold_back();  // Statics that it uses may already be destroyed.
    call(next.front());
    next.clear();  // What it owns may need the lock.
    lock.lock();
    ++run_;
    changed_.notify_all();
  }
}

void Callbacks::stop() noexcept {
  std::unique_ptr<Task> task;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    task = std::move(task_);
    changed_.notify_all();
  }
  if (task) task->join();
}

}  // namespace vma
