#include "bench/harness/load_threads.hpp"

#include <utility>

namespace vma {

LoadThreads::~LoadThreads() {
  join();
}

void LoadThreads::spawn(const char* name, std::function<void()> body) {
  tasks_.push_back(executor_.spawn(name, [this, body = std::move(body)] {
    try {
      body();
    } catch (const std::exception&) {
      stopping_ = true;
      const MutexLock lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }));
}

void LoadThreads::join() {
  stopping_ = true;
  for (const std::unique_ptr<Task>& task : tasks_) task->join();
  tasks_.clear();
}

void LoadThreads::stop() {
  join();
  const MutexLock lock(mutex_);
  if (const std::exception_ptr error = std::exchange(error_, nullptr))
    std::rethrow_exception(error);
}

}  // namespace vma
