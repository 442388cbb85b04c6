#include "migrate/moves/task_queue.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace vma {

void TaskQueue::push(std::span<const std::shared_ptr<MigrationTask>> tasks) {
  std::size_t added = 0;
  try {
    for (; added < tasks.size(); ++added) add(tasks[added]);
  } catch (...) {
    while (added > 0) take_back(*tasks[--added]);
    throw;
  }
}

void TaskQueue::add(std::shared_ptr<MigrationTask> task) {
  const Rank rank{task->options.priority, last_number_ + 1};
  const auto [line, fresh] = lines_.try_emplace(task->begin);
  try {
    if (fresh) {
      Ready one;
      one.insert({rank, task->begin});
      line->second.place = one.extract(one.begin());
    }
    line->second.tasks.emplace(rank, std::move(task));
  } catch (...) {
    if (fresh) lines_.erase(line);
    throw;
  }
  ++last_number_;
  ++size_;
  make_ready(line);
}

/// Undoes an `add`. Requires: the task is waiting.
void TaskQueue::take_back(const MigrationTask& task) noexcept {
  const auto line = lines_.find(task.begin);
  auto& [tasks, running, in_ready] = line->second;
  const auto place = std::ranges::find_if(
      tasks, [&](const auto& waiting) { return waiting.second.get() == &task; });
  const bool was_ready = !running && place == tasks.begin();
  if (was_ready) in_ready = ready_.extract({place->first, line->first});
  tasks.erase(place);
  --size_;
  if (!tasks.empty()) {
    if (was_ready) make_ready(line);
  } else if (!running) {
    lines_.erase(line);
  }
}

/// Requires: the line has a waiting task.
void TaskQueue::make_ready(Lines::iterator line) noexcept {
  if (line->second.running) return;
  const std::pair<Rank, Address> first{line->second.tasks.begin()->first, line->first};
  if (line->second.place.empty()) {
    // Its entry in `ready_` is of the task that was first: now the second one, or still the first.
    const auto next = std::next(line->second.tasks.begin());
    const auto standing = ready_.find({next->first, line->first});
    if (standing == ready_.end()) return;
    line->second.place = ready_.extract(standing);
  }
  line->second.place.value() = first;
  ready_.insert(std::move(line->second.place));
}

std::shared_ptr<MigrationTask> TaskQueue::take(
    const std::function<bool(const MigrationTask&)>& wanted) noexcept {
  std::size_t looks = 0;
  for (auto place = ready_.begin(); place != ready_.end() && looks < looks_max; ++place, ++looks) {
    const auto line = lines_.find(place->second);
    const auto first = line->second.tasks.begin();
    if (!wanted(*first->second) || !first->second->allocation()->try_begin_move()) continue;
    std::shared_ptr<MigrationTask> task = std::move(first->second);
    line->second.tasks.erase(first);
    line->second.running = true;
    line->second.place = ready_.extract(place);
    --size_;
    return task;
  }
  return nullptr;
}

void TaskQueue::ended(const MigrationTask& task) noexcept {
  const auto line = lines_.find(task.begin);
  line->second.running = false;
  if (line->second.tasks.empty()) {
    lines_.erase(line);
  } else {
    make_ready(line);
  }
}

void TaskQueue::cancel_all() noexcept {
  for (const auto& [begin, line] : lines_) {
    for (const auto& [rank, task] : line.tasks) task->cancel();
  }
}

}  // namespace vma
