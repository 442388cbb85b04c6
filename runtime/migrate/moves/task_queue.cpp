#include "migrate/moves/task_queue.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace vma {

TaskQueue::TaskQueue(Classify classify)
    : classify_(std::move(classify)),
      alone_(add_bucket({})),
      claimed_(add_bucket({.kind = TaskClass::Kind::claimed})) {}

// --- Lines

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
  const auto [place, fresh] = lines_.try_emplace(task->begin);
  Line& line = place->second;
  try {
    if (fresh) {
      Ready one;
      one.emplace(rank, &line);
      line.place = one.extract(one.begin());
    }
    line.tasks.emplace(rank, std::move(task));
  } catch (...) {
    if (fresh) lines_.erase(place);
    throw;
  }
  ++last_number_;
  ++size_;
  enter(line);
}

/// Undoes an `add`. Requires: the task is waiting.
void TaskQueue::take_back(const MigrationTask& task) noexcept {
  const auto place = lines_.find(task.begin);
  Line& line = place->second;
  leave(line);
  std::erase_if(line.tasks, [&](const auto& waiting) { return waiting.second.get() == &task; });
  --size_;
  if (!line.tasks.empty()) {
    enter(line);
  } else if (!line.running) {
    lines_.erase(place);
  }
}

bool TaskQueue::ended(const MigrationTask& task) noexcept {
  const auto line = lines_.find(task.begin);
  line->second.running = false;
  if (line->second.tasks.empty()) {
    lines_.erase(line);
    return false;
  }
  enter(line->second);
  return true;
}

void TaskQueue::cancel_all() noexcept {
  for (const auto& [begin, line] : lines_) {
    for (const auto& [rank, task] : line.tasks) task->cancel();
  }
}

// --- Buckets

TaskClass TaskQueue::class_of(const MigrationTask& task) const noexcept {
  try {
    return classify_(task);
  } catch (const std::bad_alloc&) {
    return {};
  }
}

TaskQueue::Buckets::iterator TaskQueue::add_bucket(const TaskClass& which) {
  const auto [bucket, fresh] = buckets_.try_emplace(which);
  if (!fresh) return bucket;
  try {
    Heads one;
    one.emplace(Rank{}, bucket);
    bucket->second.place = one.extract(one.begin());
  } catch (...) {
    buckets_.erase(bucket);
    throw;
  }
  return bucket;
}

/// Without memory for another one: of those that run alone, or that are kept back.
TaskQueue::Buckets::iterator TaskQueue::bucket_of(const TaskClass& which) noexcept {
  try {
    return add_bucket(which);
  } catch (const std::bad_alloc&) {
    return which.kept_back() ? claimed_ : alone_;
  }
}

/// Stands in the line of its first task's class, unless it is there. Requires: it has a task.
void TaskQueue::enter(Line& line) noexcept {
  const auto& [rank, first] = *line.tasks.begin();
  const bool stands = line.place.empty() && !(line.rank < rank) && !(rank < line.rank);
  if (line.running || stands) return;
  leave(line);
  enter(line, bucket_of(class_of(*first)));
}

void TaskQueue::enter(Line& line, Buckets::iterator bucket) noexcept {
  line.rank = line.tasks.begin()->first;
  line.bucket = bucket;
  line.place.key() = line.rank;
  bucket->second.ready.insert(std::move(line.place));
  list(bucket);
  ++changes_;
}

/// Stands in no line any more, if it did.
void TaskQueue::leave(Line& line) noexcept {
  if (!line.place.empty()) return;
  line.place = line.bucket->second.ready.extract(line.rank);
  list(line.bucket);
}

/// Puts the bucket where its first task belongs; an empty one nowhere.
void TaskQueue::list(Buckets::iterator which) noexcept {
  Bucket& bucket = which->second;
  if (bucket.place.empty()) bucket.place = heads_.extract(bucket.first);
  if (bucket.ready.empty()) {
    if (which != alone_ && which != claimed_) buckets_.erase(which);
    return;
  }
  if (which->first.kept_back()) return;
  bucket.first = bucket.ready.begin()->first;
  bucket.place.key() = bucket.first;
  heads_.insert(std::move(bucket.place));
}

std::optional<int> TaskQueue::first_priority() const noexcept {
  if (heads_.empty()) return std::nullopt;
  return heads_.begin()->first.priority;
}

// --- Taking

std::shared_ptr<MigrationTask> TaskQueue::take(
    const std::function<bool(const TaskClass&)>& wanted) noexcept {
  for (auto head = heads_.begin(); head != heads_.end();) {
    if (!wanted(head->second->first)) {
      ++head;
      continue;
    }
    if (std::shared_ptr<MigrationTask> task = take_first(head->second)) return task;
    head = heads_.begin();
  }
  return nullptr;
}

std::shared_ptr<MigrationTask> TaskQueue::take_of(const TaskClass& which) noexcept {
  for (auto bucket = buckets_.find(which); bucket != buckets_.end() && bucket != claimed_;
       bucket = buckets_.find(which)) {
    if (bucket->second.ready.empty()) break;
    if (std::shared_ptr<MigrationTask> task = take_first(bucket)) return task;
  }
  return nullptr;
}

/// Null if it cannot be taken from there: then it stands in another line.
std::shared_ptr<MigrationTask> TaskQueue::take_first(Buckets::iterator bucket) noexcept {
  Line& line = *bucket->second.ready.begin()->second;
  const auto first = line.tasks.begin();
  const TaskClass now = class_of(*first->second);
  const auto belongs = now == bucket->first ? bucket : bucket_of(now);
  if (belongs != bucket) {
    leave(line);
    enter(line, belongs);
    return nullptr;
  }
  const bool claimed = first->second->allocation()->try_begin_move();
  leave(line);
  if (!claimed) {
    enter(line, claimed_);
    return nullptr;
  }
  std::shared_ptr<MigrationTask> task = std::move(first->second);
  line.tasks.erase(first);
  line.running = true;
  --size_;
  return task;
}

void TaskQueue::reserved(const GroupAccount& group) noexcept {
  const TaskClass kept{.kind = TaskClass::Kind::unreserved, .group = &group};
  for (auto bucket = buckets_.find(kept); bucket != buckets_.end(); bucket = buckets_.find(kept)) {
    Line& line = *bucket->second.ready.begin()->second;
    leave(line);
    enter(line);
  }
}

void TaskQueue::look_at_claimed() noexcept {
  constexpr std::size_t looks_max = 256;  // A waited call may have the claims of thousands.
  Ready& claimed = claimed_->second.ready;
  const std::size_t looks = std::min(claimed.size(), looks_max);
  for (std::size_t look = 0; look < looks; ++look) {
    auto next = claimed.upper_bound(looked_at_);
    if (next == claimed.end()) next = claimed.begin();
    Line& line = *next->second;
    looked_at_ = next->first;
    if (line.tasks.begin()->second->allocation()->moving()) continue;
    leave(line);
    enter(line);
  }
}

}  // namespace vma
