#include "memory/slow_call_queue.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace vma {
namespace {
constexpr std::chrono::microseconds look_period(200);  // Between two polls of waiting jobs.
/// Between two steps. Whoever waits for a mutex is woken only when it is free, and gets it only if
/// nobody else has taken it by then.
constexpr std::chrono::microseconds step_pause(200);
constexpr std::chrono::seconds stop_limit(1);

/// Made before the queue's lock is taken: what cannot be posted is destroyed here, which may call
/// the driver.
template <typename Entry>
std::list<Entry> list_of(Entry entry) {
  std::list<Entry> one;
  one.push_back(std::move(entry));
  return one;
}
}  // namespace

SlowCallQueue::SlowCallQueue(Driver& driver) : driver_(driver) {
  task_ = driver.executor().spawn("vmart slowcalls", [this] { run(); });
}

SlowCallQueue::~SlowCallQueue() {
  stop();
}

void SlowCallQueue::stop() noexcept {
  if (!task_) return;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  task_->join();
  task_.reset();
  std::list<Job> never_ready;
  {
    const MutexLock lock(mutex_);
    never_ready.swap(waiting_);
    steps_.clear();
  }
  const MutexLock turn(turn_);
  for (Job& job : never_ready) job.run();
  run_here();  // Jobs that those posted.
}

void SlowCallQueue::post(std::function<void()> job) {
  std::list<Job> posted = list_of(Job{nullptr, std::move(job)});
  const MutexLock lock(mutex_);
  jobs_.splice(jobs_.end(), posted);
  changed_.notify_all();
}

void SlowCallQueue::post_when(std::function<bool()> ready, std::function<void()> job) {
  std::list<Job> posted = list_of(Job{std::move(ready), std::move(job)});
  const MutexLock lock(mutex_);
  waiting_.splice(waiting_.end(), posted);
  changed_.notify_all();
}

void SlowCallQueue::post_steps(std::function<bool()> step) {
  std::list<std::function<bool()>> posted = list_of(std::move(step));
  const MutexLock lock(mutex_);
  steps_.splice(steps_.end(), posted);
  changed_.notify_all();
}

void SlowCallQueue::run_here() {
  look_at_waiting();
  while (run_next()) {
  }
}

/// Jobs leave the queue only under the turn, so the holder of the turn finds all that are left.
bool SlowCallQueue::run_next() {
  std::list<Job> job;
  {
    const MutexLock lock(mutex_);
    if (jobs_.empty()) return false;
    job.splice(job.end(), jobs_, jobs_.begin());
    ++running_;
  }
  job.front().run();
  job.clear();  // What it owns is released inside the turn.
  const MutexLock lock(mutex_);
  --running_;
  changed_.notify_all();
  return true;
}

void SlowCallQueue::await_empty() {
  look_at_waiting();
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() VMART_REQUIRES(mutex_) {
    return jobs_.empty() && steps_.empty() && running_ == 0;
  });
}

void SlowCallQueue::run() {
  TimePoint give_up = never;
  MutexLock lock(mutex_);
  while (true) {
    const auto due = [this]() VMART_REQUIRES(mutex_) { return stopping_ || !jobs_.empty(); };
    if (waiting_.empty() && steps_.empty()) {
      changed_.wait(lock, [&]() VMART_REQUIRES(mutex_) {
        return due() || !waiting_.empty() || !steps_.empty();
      });
    } else if (!due()) {
      Clock& clock = driver_.clock();
      const auto pause = steps_.empty() ? look_period : step_pause;
      changed_.wait_until(lock, clock, clock.now() + pause, due);
    }
    lock.unlock();
    look_at_waiting();
    lock.lock();
    run_jobs(lock);
    run_step(lock);
    if (!stopping_ || !jobs_.empty()) continue;
    if (waiting_.empty() || driver_.clock().now() >= give_up) break;
    give_up = std::min(give_up, driver_.clock().now() + stop_limit);
    changed_.wait_until(lock, driver_.clock(), driver_.clock().now() + look_period,
                        [] { return false; });
  }
  // Jobs that still wait depend on work that has not ended; `stop` handles them.
}

void SlowCallQueue::run_jobs(MutexLock& lock) {
  while (!jobs_.empty()) {
    lock.unlock();
    {
      const MutexLock turn(turn_);
      run_next();
    }
    lock.lock();
  }
}

/// Of the first in line. It stays the first while it has more to do.
void SlowCallQueue::run_step(MutexLock& lock) {
  if (steps_.empty() || stopping_) return;
  std::list<std::function<bool()>> step;
  step.splice(step.end(), steps_, steps_.begin());
  ++running_;
  lock.unlock();
  {
    const MutexLock turn(turn_);
    if (!step.front()()) step.clear();
  }
  lock.lock();
  --running_;
  steps_.splice(steps_.begin(), step);
  changed_.notify_all();
}

void SlowCallQueue::look_at_waiting() {
  const MutexLock looking(looking_);
  std::list<Job> waiting, now;
  {
    const MutexLock lock(mutex_);
    waiting.swap(waiting_);
  }
  for (auto job = waiting.begin(); job != waiting.end();) {
    const auto next = std::next(job);
    if (job->ready()) now.splice(now.end(), waiting, job);
    job = next;
  }
  const MutexLock lock(mutex_);
  waiting_.splice(waiting_.begin(), waiting);  // Before those that arrived meanwhile.
  jobs_.splice(jobs_.end(), now);
  changed_.notify_all();  // The slow-call thread may have found no waiting job meanwhile.
}

}  // namespace vma
