#include "migrate/moves/migration_workers.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"
#include "migrate/live/live_migration.hpp"
#include "migrate/migration/migration_error.hpp"
#include "migrate/migration/target_reservation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <new>
#include <optional>
#include <utility>

namespace vma {
namespace {

constexpr std::chrono::milliseconds look_period(1);

/// Such memory is moved by HeldMigration, which leads its importers.
bool has_importers(const MigrationTask& task) noexcept {
  return !task.allocation()->importers().empty();
}

bool is_held(const MigrationTask& task) noexcept {
  return task.options.scope == StopScope::hold || task.options.nothing_runs || has_importers(task);
}

/// Where the first chunk lies that the task is to move, of those outside of `known`; none if there
/// is none.
std::optional<Place> source_of(const MigrationTask& task, std::span<const Place> known = {}) {
  const std::shared_ptr<Allocation> allocation = task.allocation();
  for (std::size_t slot = task.range.first; slot < task.range.end; ++slot) {
    const Place home = allocation->place(slot);
    if (home != task.to && std::ranges::find(known, home) == known.end()) return home;
  }
  return std::nullopt;
}

/// Those of one class share gates or a hold. Not with hooks: the claims of the others are taken
/// while they run, and a hook may free other memory, or wait for a thread that does. Not with
/// importers, which would have to follow several moves at once. No gates with `reserve_first`,
/// which may wait long for room. Gates are shared between GPUs whatever the route; to or from the
/// host, where each chunk takes long, only on the same one.
TaskClass class_of(const MigrationTask& task, const AttachedStreams& attached) {
  using enum TaskClass::Kind;
  const MigrateOptions& options = task.options;
  if (task.unreserved) return {.kind = unreserved, .group = task.group.get()};
  if (!task.allocation()->hooks().empty() || has_importers(task)) return {};
  if (is_held(task)) {
    return task.group ? TaskClass{.kind = hold, .group = task.group.get()} : TaskClass{};
  }
  const std::optional<Place> from = source_of(task);
  if (!from || options.reserve_first) return {};
  TaskClass which{.kind = gates};
  which.conditions = {options.priority,          task.terms.asks_for_room, options.mode,
                      options.paranoid,          options.max_stall,        options.deadline,
                      options.copy_share_percent};
  const bool between_gpus = from->kind == Place::Kind::gpu && task.to.kind == Place::Kind::gpu;
  if (!between_gpus) which.route.emplace(*from, task.to);
  which.streams = attached.own_streams(task.begin);
  return which;
}

/// Makes the caller's current context current on this thread: a hold stops that context too.
class CallerContext {
 public:
  CallerContext(Driver& driver, ContextHandle caller) : driver_(driver), set_(!is_none(caller)) {
    if (set_) driver_.set_current_context(caller);
  }
  ~CallerContext() {
    if (!set_) return;
    try {
      driver_.set_current_context(ContextHandle{});
    } catch (const std::exception& error) {
      log(LogLevel::warn, "a caller's context stays current: {}", error.what());
    }
  }
  CallerContext(const CallerContext&) = delete;
  CallerContext& operator=(const CallerContext&) = delete;

 private:
  Driver& driver_;
  const bool set_;
};

}  // namespace

MigrationWorkers::MigrationWorkers(MigrationParts& parts, WaitedMigrations& waited,
                                   Preparation& preparation)
    : parts_(parts),
      waited_(waited),
      preparation_(preparation),
      waiting_(
          [this](const MigrationTask& task) { return class_of(task, parts_.stops.attached()); }) {}

MigrationWorkers::Load MigrationWorkers::load() const {
  const MutexLock lock(queue_mutex_);
  return {running_.size(), waiting_.size()};
}

std::size_t MigrationWorkers::running_max() const {
  return parts_.memory.topology().devices().size() + parts_.memory.pressure().waiting();
}

void MigrationWorkers::enqueue(std::span<const std::shared_ptr<MigrationTask>> tasks) {
  const MutexLock lock(queue_mutex_);
  if (stopping_)
    throw Error(ErrorKind::driver_gone, "vma::migrate_async", "the runtime shuts down");
  if (tasks.size() > TaskQueue::tasks_max - std::min(waiting_.size(), TaskQueue::tasks_max)) {
    throw Error(ErrorKind::busy, "vma::migrate_async",
                fmt::format("{} migrations are queued, and {} more exceed the limit of {}; wait "
                            "for some of them (Migration::wait), or cancel them",
                            waiting_.size(), tasks.size(), TaskQueue::tasks_max));
  }
  start_workers(tasks.size());
  const bool joint = tasks.front()->group && tasks.front()->options.all_or_nothing;
  if (joint) unreserved_.push_back({Tasks(tasks.begin(), tasks.end()), false});
  for (const auto& task : tasks) task->unreserved = joint;
  try {
    waiting_.push(tasks);
  } catch (...) {
    if (joint) unreserved_.pop_back();
    throw;
  }
  wake_idle();
}

void MigrationWorkers::wake_idle() noexcept {
  ++wakes_;
  queue_changed_.notify_all();
}

/// Starts as many as are useful; fewer also work, as long as there is one.
void MigrationWorkers::start_workers(std::size_t tasks) {
  const std::size_t wanted = std::min(running_max(), waiting_.size() + running_.size() + tasks);
  // `next_task` allocates nothing.
  running_.reserve(running_.size() + std::max(wanted, workers_.size()));
  leaders_.reserve(std::max(wanted, workers_.size()));
  workers_.reserve(wanted);
  while (workers_.size() < wanted) {
    try {
      workers_.push_back(parts_.memory.driver().executor().spawn(
          fmt::format("vmart moves {}", workers_.size()), [this] { work(); }));
    } catch (const std::exception& error) {
      if (workers_.empty()) throw;
      log(LogLevel::debug, "could not start another migrator thread; continuing with {}: {}",
          workers_.size(), error.what());
      return;
    }
  }
}

/// The first task whose allocation no other thread moves; its claim is taken.
std::shared_ptr<MigrationTask> MigrationWorkers::next_task() {
  constexpr std::chrono::seconds joining_time(1);  // Tasks for other routes may wait.
  if (busy_workers_ >= running_max()) return nullptr;
  const TimePoint now = look_at_claimed();
  std::shared_ptr<MigrationTask> task =
      waiting_.take([this, now](const TaskClass& which) VMART_NO_THREAD_ANALYSIS {
        return std::ranges::none_of(leaders_, [&](const Leader& leader) {
          return now < leader.until && leader.which == which;
        });
      });
  if (!task) return nullptr;
  running_.push_back(task);
  ++busy_workers_;
  TaskClass which = waiting_.class_of(*task);
  if (which.kind == TaskClass::Kind::gates) {
    leaders_.push_back({task, std::move(which), now + joining_time});
  }
  return task;
}

/// A free and a waited move end their claims without notice. Returns the time.
TimePoint MigrationWorkers::look_at_claimed() {
  const TimePoint now = parts_.memory.driver().clock().now();
  if (now >= looked_at_claimed_ + look_period) {
    looked_at_claimed_ = now;
    waiting_.look_at_claimed();
  }
  return now;
}

/// When an idle worker may find a task that nobody has woken it for.
TimePoint MigrationWorkers::next_look() const {
  if (waiting_.empty()) return never;
  const TimePoint soon = parts_.memory.driver().clock().now() + look_period;
  // A move that begins to wait for room gives no notice either.
  if (waiting_.any_claimed() || busy_workers_ >= running_max()) return soon;
  TimePoint next = never;
  for (const Leader& leader : leaders_) next = std::min(next, std::max(soon, leader.until));
  return next;
}

/// Reserves the targets of a group. False if none is due.
bool MigrationWorkers::reserve_next(MutexLock& lock) {
  const auto due = std::ranges::find_if(unreserved_, std::not_fn(&Unreserved::begun));
  if (due == unreserved_.end() || busy_workers_ >= running_max()) return false;
  due->begun = true;
  ++busy_workers_;
  lock.unlock();
  reserve_targets(parts_, due->tasks);
  lock.lock();
  --busy_workers_;
  for (const auto& task : due->tasks) task->unreserved = false;
  waiting_.reserved(*due->tasks.front()->group);
  unreserved_.erase(due);
  wake_idle();
  return true;
}

std::shared_ptr<MigrationTask> MigrationWorkers::take_beside(const MigrationTask& first) noexcept {
  const MutexLock lock(queue_mutex_);
  const auto leader = std::ranges::find_if(
      leaders_, [&](const Leader& which) { return which.first.get() == &first; });
  if (leader == leaders_.end() || look_at_claimed() >= leader->until) return nullptr;
  // What is more urgent does not wait until all of this route have moved.
  const auto more_urgent = [&](const Unreserved& group) {
    return group.tasks.front()->options.priority > first.options.priority;
  };
  if (waiting_.first_priority() > first.options.priority ||
      std::ranges::any_of(unreserved_, more_urgent))
    return nullptr;
  try {
    running_.reserve(running_.size() + workers_.size() + 1);
  } catch (const std::bad_alloc&) {
    return nullptr;  // It gets its turn when this move has ended.
  }
  const std::uint64_t before = waiting_.changes();
  std::shared_ptr<MigrationTask> task = waiting_.take_of(leader->which);
  if (task) running_.push_back(task);
  if (waiting_.changes() != before) wake_idle();  // Some do not join any more.
  return task;
}

void MigrationWorkers::lead_no_longer(const MigrationTask& first) noexcept {
  const MutexLock lock(queue_mutex_);
  std::erase_if(leaders_, [&](const Leader& leader) { return leader.first.get() == &first; });
  wake_idle();
}

void MigrationWorkers::work() {
  MutexLock lock(queue_mutex_);
  while (true) {
    if (reserve_next(lock)) continue;
    std::shared_ptr<MigrationTask> task = next_task();
    if (task) {
      Tasks together;
      take_group_of(task, together);
      lock.unlock();
      carry_out(task, together);
      together.clear();
      lock.lock();
      --busy_workers_;
      std::erase_if(leaders_, [&](const Leader& leader) { return leader.first == task; });
      wake_idle();
      continue;
    }
    if (stopping_ && waiting_.empty()) return;
    queue_changed_.wait_until(lock, parts_.memory.driver().clock(), next_look(),
                              [&, seen = wakes_]()
                                  VMART_NO_THREAD_ANALYSIS { return wakes_ != seen; });
  }
}

void MigrationWorkers::carry_out(const std::shared_ptr<MigrationTask>& task,
                                 const Tasks& together) noexcept {
  if (is_held(*task) && together.empty()) return carry_out_held({&task, 1});
  if (is_held(*task)) return carry_out_held(together);
  std::exception_ptr failure;
  try {
    if (must_hold(*task)) return carry_out_held({&task, 1});
    LiveMigration(parts_, *this, task).run();
    return preparation_.begin_wanted();
  } catch (...) {  // From the constructor.
    failure = std::current_exception();
  }
  // Copying its report allocates nothing yet: it has neither texts nor failures.
  ended(task, task->report(), std::move(failure));
}

/// Whether the memory can move only under a hold: the work that may use it cannot be suspended, no
/// stream is attached, and there is no room for the contexts of ours that a live move needs.
bool MigrationWorkers::must_hold(const MigrationTask& task) {
  if (parts_.stops.attached().any(task.begin) || !parts_.memory.driver().has_context_hold())
    return false;
  try {
    std::vector<Place> sources;
    while (const std::optional<Place> from = source_of(task, sources)) {
      sources.push_back(*from);
      if (parts_.stops.may_suspend(*from, task.to)) continue;
      parts_.engine.prepare(*from, task.to, 1, CopyUnder::hold);
    }
    return false;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    return true;
  }
}

/// Of a task that holds and is one of a group: the task, and the others of the group whose
/// allocations no other thread moves, to share its hold.
void MigrationWorkers::take_group_of(const std::shared_ptr<MigrationTask>& first,
                                     Tasks& tasks) noexcept {
  const TaskClass which = waiting_.class_of(*first);
  if (which.kind != TaskClass::Kind::hold) return;
  try {
    tasks.push_back(first);
    while (true) {
      tasks.reserve(tasks.size() + 1);
      running_.reserve(running_.size() + workers_.size() + 1);
      std::shared_ptr<MigrationTask> next = waiting_.take_of(which);
      if (!next) return;
      running_.push_back(next);
      tasks.push_back(std::move(next));
    }
  } catch (const std::bad_alloc&) {  // The others have a hold of their own.
  }
}

/// Under one hold. Requires: the claims are taken; one group; no hooks if there are several.
void MigrationWorkers::carry_out_held(
    std::span<const std::shared_ptr<MigrationTask>> tasks) noexcept {
  std::list<HeldRange> ranges;
  std::exception_ptr failure;
  try {
    std::vector<HeldRange*> going;
    for (const auto& task : tasks) {
      going.push_back(&ranges.emplace_back(*task->allocation(), task->range, task->to, task.get()));
    }
    const MigrationTask& first = *tasks.front();
    const CallerContext context(parts_.memory.driver(), first.caller);
    waited_.run(going, first.options, first.terms, first.group.get());
  } catch (...) {
    failure = std::current_exception();
  }
  auto range = ranges.begin();
  for (const auto& task : tasks) {
    HeldRange* const own = failure ? nullptr : &*range++;
    if (own == nullptr || !own->untold) end_held(task, own, failure);
  }
  if (failure) return;
  range = ranges.begin();
  for (const auto& task : tasks) {  // Their hooks run when the claims of the others are back.
    if ((range++)->untold) carry_out_held({&task, 1});
  }
}

/// `range` is null if it never began, because of the failure.
void MigrationWorkers::end_held(const std::shared_ptr<MigrationTask>& task, HeldRange* range,
                                std::exception_ptr failure) noexcept {
  // Copying its report allocates nothing yet: it has neither texts nor failures.
  if (range == nullptr) return ended(task, task->report(), std::move(failure));
  MigrationReport report = std::move(range->report);
  failure = range->failure;
  if (!failure && report.outcome != Outcome::done) {
    failure = cancelled_after(report, range->allocation, "vma::migrate_async");
  }
  ended(task, std::move(report), std::move(failure));
}

void MigrationWorkers::ended(std::shared_ptr<MigrationTask> task, MigrationReport report,
                             std::exception_ptr failure) noexcept {
  std::shared_ptr<Allocation> allocation = task->allocation();
  std::optional<Error> error;
  if (failure) {
    error = errors_.of(failure, report, *allocation);
    report.outcome = outcome_of(*error, report);
  }
  failure = nullptr;
  ProcessExit::hold_back();  // A move that ends because the process exits is not reported.
  if (task->terms.choice == PlaceChoice::program) {
    allocation->note_wanted_there(task->range.first, task->range.end, task->to);
  }
  task->reserved.give_back();
  allocation->offer_cpu(task->range.first, task->range.end);
  allocation->end_move();
  waited_.note_end(*allocation, report);
  if (task->group) task->group->ended();
  task->finish(std::move(report), std::move(error));
  {
    const MutexLock lock(queue_mutex_);
    std::erase(running_, task);
    if (waiting_.ended(*task)) wake_idle();
  }
  // If it was freed, it is destroyed here and gives its addresses back: not beside a closed gate.
  const MutexLock slow_work(parts_.memory.chunks().slow_calls().turn());
  allocation.reset();
}

void MigrationWorkers::stop_accepting() noexcept {
  const MutexLock lock(queue_mutex_);
  stopping_ = true;
  waiting_.cancel_all();
  for (const auto& task : running_) task->cancel();
  wake_idle();
}

void MigrationWorkers::join() noexcept {
  std::vector<std::unique_ptr<Task>> workers;
  {
    const MutexLock lock(queue_mutex_);
    workers.swap(workers_);
  }
  for (const std::unique_ptr<Task>& worker : workers) worker->join();
}

}  // namespace vma
