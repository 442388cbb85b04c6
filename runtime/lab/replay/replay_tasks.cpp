#include "lab/replay/replay_tasks.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <utility>

namespace vma {

bool ReplayTasks::declare(const TraceEvent& event, Time now) {
  const auto index = static_cast<Index>(tasks_.size());
  if (!numbers_.emplace(event.task, index).second) return false;
  Task& task = tasks_.emplace_back();
  task.declared = event;
  task.declared.time = std::min(event.time, now);  // With `Pacing::at_once`, times do not count.
  task.left = event.bytes;
  task.ready = now;
  if (event.object != 0) ++unfinished_[event.object];
  open_ = index;
  return true;
}

bool ReplayTasks::belongs(const TraceEvent& event) const {
  return open_ != none && tasks_[open_].declared.task == event.task && may_declare(event);
}

void ReplayTasks::add(const TraceEvent& event) {
  Task& task = tasks_[open_];
  if (event.kind == TraceEventKind::access) {
    task.accesses.push_back(event);
    ++uses_[event.object].accesses;
    return;
  }
  if (event.kind == TraceEventKind::hint) return task.hints.push_back(event);
  Task& predecessor = tasks_[numbers_.at(static_cast<std::uint32_t>(event.object))];
  if (predecessor.ended) return;
  predecessor.next.push_back(open_);
  ++task.waits;
}

ReplayTasks::Index ReplayTasks::close() {
  if (open_ != none && tasks_[open_].waits == 0) due_.emplace_back(open_);
  return std::exchange(open_, none);
}

ReplayTasks::Index ReplayTasks::declare_again(const TraceEvent& declared,
                                              std::span<const TraceEvent> accesses,
                                              std::span<const Index> before) {
  const auto index = static_cast<Index>(tasks_.size());
  Task& task = tasks_.emplace_back();
  task.declared = declared;
  task.left = declared.bytes;
  task.again = true;
  task.accesses.assign(accesses.begin(), accesses.end());
  task.next.assign(before.begin(), before.end());
  for (const TraceEvent& access : accesses) ++uses_[access.object].accesses;
  for (const Index next : before) ++tasks_[next].waits;
  ++unfinished_[declared.object];
  return index;
}

bool ReplayTasks::defer(const TraceEvent& event) {
  if (event.task != 0) {
    Task& task = tasks_[numbers_.at(event.task)];
    if (!task.ended) {
      task.after.push_back(event);
      return true;
    }
  }
  if (event.kind != TraceEventKind::free) return false;
  const auto used = uses_.find(event.object);
  if (used == uses_.end()) return false;
  used->second.free = event;
  return true;
}

std::uint64_t ReplayTasks::steps_at_once(const Task& task) const {
  const Time step = task.declared.duration;
  if (step <= Time::zero()) return 1;
  const auto fit = static_cast<std::uint64_t>(steps_span_ / step);
  return std::clamp<std::uint64_t>(fit, 1, task.left);
}

ReplayTasks::Steps ReplayTasks::steps(Index index) const {
  const Task& task = tasks_[index];
  const std::uint64_t count = steps_at_once(task);
  return {task.accesses,
          count,
          static_cast<Time::rep>(count) * task.declared.duration,
          task.declared.at,
          task.declared.object,
          task.declared.bytes,
          static_cast<Time::rep>(task.declared.bytes) * task.declared.duration,
          task.again,
          task.left == task.declared.bytes ? std::span(task.hints) : std::span<const TraceEvent>()};
}

void ReplayTasks::began(Index index, std::size_t accesses, Time now) {
  Task& task = tasks_[index];
  if (task.began == Time::min()) task.began = now;
  const std::uint64_t count = steps_at_once(task);
  task.left -= count;
  task.running = accesses;
  const Time duration = static_cast<Time::rep>(count) * task.declared.duration;
  if (accesses > 0 && duration == Time::zero()) return;
  ++task.running;
  timers_.emplace(now + duration, index);
}

void ReplayTasks::access_ended(Index index, Time now) {
  Task& task = tasks_[index];
  VMART_CHECK(task.running > 0, "something of the task is in progress");
  if (--task.running == 0) step_ended(index, now);
}

void ReplayTasks::pass(Time now) {
  while (!timers_.empty() && timers_.top().first <= now) {
    const Index index = timers_.top().second;
    timers_.pop();
    access_ended(index, now);
  }
}

void ReplayTasks::step_ended(Index index, Time now) {
  if (tasks_[index].left > 0) {
    due_.emplace_back(index);
  } else {
    end(index, now);
  }
}

/// Events come first: what a task frees is there for the tasks after it.
void ReplayTasks::end(Index index, Time now) {
  Task& task = tasks_[index];
  task.ended = true;
  ++ended_;
  last_end_ = now;
  if (!task.again) note_request(task, now);
  if (task.declared.object != 0 && --unfinished_.at(task.declared.object) == 0)
    unfinished_.erase(task.declared.object);
  uses_ended(task);
  for (const TraceEvent& event : task.after)
    if (!defer(event)) due_.emplace_back(event);
  for (const Index next : task.next)
    if (--tasks_[next].waits == 0) {
      // Work that is done again delays what was ready before.
      if (!task.again) tasks_[next].ready = now;
      if (next != open_) due_.emplace_back(next);
    }
  task.accesses = {};
  task.hints = {};
  task.next = {};
  task.after = {};
}

void ReplayTasks::uses_ended(const Task& task) {
  for (const TraceEvent& access : task.accesses) {
    const auto used = uses_.find(access.object);
    if (--used->second.accesses > 0) continue;
    if (used->second.free) due_.emplace_back(*used->second.free);
    uses_.erase(used);
  }
}

void ReplayTasks::note_request(const Task& task, Time now) {
  const std::uint64_t number = task.declared.object;
  if (number == 0) return;
  const auto [known, added] = by_request_.emplace(number, requests_.size());
  if (added) requests_.push_back({number, task.declared.time, now, now, 0, Time(0), {}});
  ReplayRequest& request = requests_[known->second];
  request.last = now;
  if (task.declared.bytes == 1) return;
  request.steps += task.declared.bytes;
  // The first task's wait is in the time to its end.
  request.stepping += now - (added ? task.began : task.ready);
}

}  // namespace vma
