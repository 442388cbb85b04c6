#pragma once

#include "migrate/migration/migration_task.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

namespace vma {

/// Migrations that wait for a worker: the highest priority first, equal ones in order, one of an
/// allocation at a time. Each call costs O(log n) in the number of waiting tasks; `take` also looks
/// at each allocation whose task is not wanted, or that another thread moves or frees meanwhile.
/// One lock guards it.
class TaskQueue {
 public:
  /// How many may wait; the submitter enforces it. A move costs about a kilobyte while it waits.
  static constexpr std::size_t tasks_max = 65'536;

  /// All or none of them. Throws: std::bad_alloc; then nothing has changed.
  void push(std::span<const std::shared_ptr<MigrationTask>> tasks);
  /// How many allocations `take` looks at, so that a long queue stays cheap.
  static constexpr std::size_t looks_max = 1'024;

  /// The first task that `wanted` accepts and whose allocation has no other move in progress, with
  /// its claim taken; null if there is none among the first `looks_max` that could run.
  std::shared_ptr<MigrationTask> take(
      const std::function<bool(const MigrationTask&)>& wanted) noexcept;
  /// A taken task has ended: the next of its allocation may run.
  void ended(const MigrationTask& task) noexcept;
  void cancel_all() noexcept;

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

 private:
  struct Rank {
    int priority = 0;
    std::uint64_t number = 0;  // In order of arrival.
    bool operator<(const Rank& other) const noexcept {
      if (priority != other.priority) return priority > other.priority;
      return number < other.number;
    }
  };
  using Tasks = std::map<Rank, std::shared_ptr<MigrationTask>>;
  using Ready = std::set<std::pair<Rank, Address>>;
  struct Line {
    Tasks tasks;
    bool running = false;
    Ready::node_type
        place;  // In `ready_`; kept here while absent, so that re-inserting needs no memory.
  };
  using Lines = std::map<Address, Line>;

  void add(std::shared_ptr<MigrationTask> task);
  void take_back(const MigrationTask& task) noexcept;
  void make_ready(Lines::iterator line) noexcept;

  Lines lines_;  // By allocation; those with a waiting or running task.
  Ready ready_;  // The first task of each line without a running one.
  std::size_t size_ = 0;
  std::uint64_t last_number_ = 0;
};

}  // namespace vma
