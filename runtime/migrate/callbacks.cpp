#include "migrate/callbacks.hpp"

#include "base/log.hpp"

#include <exception>
#include <utility>

namespace vma {
namespace {
thread_local int callbacks_running = 0;
}  // namespace

bool Callbacks::runs_here() noexcept {
  return callbacks_running > 0;
}

void Callbacks::post(std::function<void()> callback) {
  {
    const MutexLock lock(mutex_);
    if (!stopping_) {
      if (!task_) task_ = driver_.executor().spawn("vmart callback", [this] { run(); });
      queue_.push_back(std::move(callback));
      changed_.notify_all();
      return;
    }
  }
  call(callback);
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
    log(LogLevel::error, "a callback threw something that is no std::exception");
  }
  --callbacks_running;
  ++failed_;
}

void Callbacks::run() {
  MutexLock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&]() VMART_NO_THREAD_ANALYSIS { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> callback = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    call(callback);
    callback = nullptr;  // What it holds may need the lock.
    lock.lock();
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
