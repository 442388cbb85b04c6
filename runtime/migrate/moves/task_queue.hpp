#pragma once

#include "migrate/migration/group.hpp"
#include "migrate/migration/migration_task.hpp"
#include "migrate/migration/stops.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace vma {

/// Which waiting tasks may run together: those of equal classes.
struct TaskClass {
  enum class Kind {
    alone,       ///< Each by itself, whatever else is equal.
    gates,       ///< They may share gates.
    hold,        ///< They may share a hold.
    unreserved,  ///< They may not begin before the targets of their group are reserved.
    claimed,     ///< Another thread moves or frees the allocation of each.
  };
  /// What tasks that share a gate have in common.
  struct Conditions {
    int priority = 0;
    bool asks_for_room = true;
    Mode mode = Mode::automatic;
    bool paranoid = false;
    std::optional<std::chrono::microseconds> max_stall{};
    std::chrono::milliseconds deadline{0};
    std::optional<int> copy_share_percent{};
    auto operator<=>(const Conditions&) const = default;
  };

  Kind kind = Kind::alone;
  const GroupAccount* group = nullptr;  ///< Whose they are: `hold`, `unreserved`.
  // --- For `gates`.
  Conditions conditions{};
  std::optional<std::pair<Place, Place>> route{};  ///< None: between GPUs, whichever they are.
  AttachedStreams::Names streams{};                ///< `AttachedStreams::own_streams`.
  auto operator<=>(const TaskClass&) const = default;

  /// No worker takes tasks of such a class.
  bool kept_back() const noexcept { return kind >= Kind::unreserved; }
};

/// Migrations that wait for a worker: the highest priority first, equal ones in order, one of an
/// allocation at a time. They stand in line by class, so each call costs O(log n) in the number of
/// waiting tasks, and `take` looks once at each class that it does not want. What decides about a
/// class may change while a task waits: its class is determined anew when it is first in line, and
/// if it is another one, the task changes over. One lock guards it.
/// One owner: the lines, and two orders of those that may run.
class TaskQueue {
 public:
  /// How many may wait; the submitter enforces it. A move costs about a kilobyte while it waits.
  static constexpr std::size_t tasks_max = 65'536;

  /// Throws: std::bad_alloc; then the task is `alone`.
  using Classify = std::function<TaskClass(const MigrationTask&)>;
  explicit TaskQueue(Classify classify);
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  /// All or none of them. Throws: std::bad_alloc; then nothing has changed.
  void push(std::span<const std::shared_ptr<MigrationTask>> tasks);
  /// The first task of the wanted classes whose allocation has no other move in progress, with its
  /// claim taken; null if there is none.
  std::shared_ptr<MigrationTask> take(const std::function<bool(const TaskClass&)>& wanted) noexcept;
  std::shared_ptr<MigrationTask> take_of(const TaskClass& which) noexcept;
  /// A taken task has ended. Returns whether the next of its allocation may run now.
  bool ended(const MigrationTask& task) noexcept;
  /// The targets of the group are reserved: determines the classes of its tasks anew.
  void reserved(const GroupAccount& group) noexcept;
  /// Looks at some of the tasks whose allocations were claimed, in turn.
  void look_at_claimed() noexcept;
  void cancel_all() noexcept;

  TaskClass class_of(const MigrationTask& task) const noexcept;
  /// That of the first task which is not kept back; none if there is none.
  std::optional<int> first_priority() const noexcept;
  bool any_claimed() const noexcept { return !claimed_->second.ready.empty(); }
  /// Grows whenever a task stands in a line where it did not stand before.
  std::uint64_t changes() const noexcept { return changes_; }
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
  struct Line;
  struct Bucket;
  using Tasks = std::map<Rank, std::shared_ptr<MigrationTask>>;
  using Ready = std::map<Rank, Line*>;
  using Buckets = std::map<TaskClass, Bucket>;
  using Heads = std::map<Rank, Buckets::iterator>;
  /// The tasks of one allocation.
  struct Line {
    Tasks tasks;
    bool running = false;
    Rank rank;  // While it is in a bucket, that of its first task.
    Buckets::iterator bucket;
    Ready::node_type place;  // Kept here while it is in none, so that re-inserting needs no memory.
  };
  /// The allocations whose first tasks are of one class, and of which none runs.
  struct Bucket {
    Ready ready;
    Rank first;              // While it is in `heads_`.
    Heads::node_type place;  // Kept here while it is not.
  };
  using Lines = std::map<Address, Line>;

  void add(std::shared_ptr<MigrationTask> task);
  void take_back(const MigrationTask& task) noexcept;
  void enter(Line& line, Buckets::iterator bucket) noexcept;
  void enter(Line& line) noexcept;
  void leave(Line& line) noexcept;
  Buckets::iterator add_bucket(const TaskClass& which);
  Buckets::iterator bucket_of(const TaskClass& which) noexcept;
  void list(Buckets::iterator bucket) noexcept;
  std::shared_ptr<MigrationTask> take_first(Buckets::iterator bucket) noexcept;

  const Classify classify_;
  Lines lines_;      // By allocation; those with a waiting or running task.
  Buckets buckets_;  // Those with lines, and the two that follow.
  Heads heads_;      // Those whose tasks may be taken, by their first ones.
  const Buckets::iterator alone_, claimed_;
  Rank looked_at_;  // The last of `claimed_`.
  std::size_t size_ = 0;
  std::uint64_t last_number_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace vma
