#include "lab/experiments/job_pool.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vma {

void JobPool::note_failure(std::size_t number) {
  MutexLock lock(mutex_);
  if (failure_ != nullptr && failed_ < number) return;
  failure_ = std::current_exception();
  failed_ = number;
}

void JobPool::work(std::size_t count, const std::function<void(std::size_t)>& job,
                   const std::function<bool()>& stop) {
  for (;;) {
    std::size_t number = 0;
    {
      MutexLock lock(mutex_);
      if (next_ >= count || failure_ != nullptr || stop()) return;
      number = next_++;
    }
    try {
      job(number);
    } catch (...) {
      note_failure(number);
    }
  }
}

void JobPool::run(std::size_t count, const std::function<void(std::size_t)>& job,
                  const std::function<bool()>& stop) {
  {
    MutexLock lock(mutex_);
    next_ = 0;
    failure_ = nullptr;
  }
  std::vector<std::unique_ptr<Task>> tasks;
  // So that `push_back` cannot throw: every spawned task must be joined.
  tasks.reserve(std::min(threads_, count));
  const auto join_all = [&] {
    for (const auto& task : tasks) task->join();
  };
  try {
    for (std::size_t i = 0; i < std::min(threads_, count); ++i)
      tasks.push_back(executor_.spawn("job" + std::to_string(i), [&] { work(count, job, stop); }));
  } catch (...) {  // No further thread available: the existing ones do the rest.
    if (tasks.empty()) throw;
  }
  join_all();
  MutexLock lock(mutex_);
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace vma
