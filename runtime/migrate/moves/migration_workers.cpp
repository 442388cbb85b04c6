#include "migrate/moves/migration_workers.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"
#include "migrate/live/live_migration.hpp"
#include "migrate/migration/migration_error.hpp"
#include "migrate/migration/target_reservation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <list>
#include <new>
#include <optional>
#include <tuple>
#include <utility>

namespace vma {
namespace {

/// Such memory is moved by HeldMigration, which leads its importers.
bool has_importers(const MigrationTask& task) noexcept {
  return !task.allocation()->importers().empty();
}

bool is_held(const MigrationTask& task) noexcept {
  return task.options.scope == StopScope::hold || task.options.nothing_runs || has_importers(task);
}

/// Whether it may share a hold with others. Not with hooks: one may have to wait for the claims of
/// the others. Not with importers, which would have to follow several moves at once.
bool may_share_hold(const MigrationTask& task) {
  return task.allocation()->hooks().empty() && !has_importers(task);
}

/// Whether it may share gates with others. Not with hooks: the claims of the others are taken while
/// they run, and a hook may free other memory, or wait for a thread that does. Not with
/// `reserve_first`: it may wait long for room.
bool may_share(const MigrationTask& task) {
  return !is_held(task) && !task.options.reserve_first && task.allocation()->hooks().empty();
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

/// What tasks that share a gate have in common.
auto conditions_of(const MigrationTask& task) {
  const MigrateOptions& options = task.options;
  return std::tie(options.priority, task.terms.asks_for_room, options.mode, options.paranoid,
                  options.max_stall, options.deadline, options.copy_share_percent);
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
    : parts_(parts), waited_(waited), preparation_(preparation) {}

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
  try {
    waiting_.push(tasks);
  } catch (...) {
    if (joint) unreserved_.pop_back();
    throw;
  }
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
  std::shared_ptr<MigrationTask> task =
      waiting_.take([this](const MigrationTask& which) VMART_NO_THREAD_ANALYSIS {
        return may_begin(which) && !joins_another(which);
      });
  if (!task) return nullptr;
  running_.push_back(task);
  ++busy_workers_;
  const std::optional<Place> from = source_of(*task);
  if (from && may_share(*task)) {
    leaders_.push_back({task, *from, parts_.memory.driver().clock().now() + joining_time});
  }
  return task;
}

/// False until the targets of its group are reserved, if they have to be.
bool MigrationWorkers::may_begin(const MigrationTask& task) const {
  return std::ranges::none_of(unreserved_, [&](const Unreserved& group) {
    return group.tasks.front()->group == task.group;
  });
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
  unreserved_.erase(due);
  queue_changed_.notify_all();
  return true;
}

/// Whether the task may share all its gates with the leader's first one, under the same conditions:
/// between GPUs whatever the route; to or from the host, where each chunk takes long, only the
/// same.
bool MigrationWorkers::may_join(const Leader& leader, const MigrationTask& task) {
  const std::optional<Place> from = source_of(task);
  const auto is_gpu = [](Place at) { return at.kind == Place::Kind::gpu; };
  const bool between_gpus =
      is_gpu(leader.from) && is_gpu(leader.first->to) && is_gpu(task.to) && from && is_gpu(*from);
  const bool same_route = task.to == leader.first->to && from == leader.from;
  if (!(between_gpus || same_route)) return false;
  if (conditions_of(task) != conditions_of(*leader.first)) return false;
  return may_share(task) && parts_.stops.attached().same_scope(leader.first->begin, task.begin);
}

bool MigrationWorkers::joins_another(const MigrationTask& task) {
  const TimePoint now = parts_.memory.driver().clock().now();
  return std::ranges::any_of(
      leaders_, [&](const Leader& leader) { return now < leader.until && may_join(leader, task); });
}

std::shared_ptr<MigrationTask> MigrationWorkers::take_beside(const MigrationTask& first) noexcept {
  const MutexLock lock(queue_mutex_);
  const auto leader = std::ranges::find_if(
      leaders_, [&](const Leader& which) { return which.first.get() == &first; });
  if (leader == leaders_.end() || parts_.memory.driver().clock().now() >= leader->until)
    return nullptr;
  try {
    running_.reserve(running_.size() + workers_.size() + 1);
  } catch (const std::bad_alloc&) {
    return nullptr;  // It gets its turn when this move has ended.
  }
  bool more_urgent = false;  // Such a task does not wait until all of this route have moved.
  const auto joins = [&](const MigrationTask& which) VMART_NO_THREAD_ANALYSIS {
    more_urgent |= which.options.priority > first.options.priority;
    return !more_urgent && may_begin(which) && may_join(*leader, which);
  };
  std::shared_ptr<MigrationTask> task = waiting_.take(std::cref(joins));  // Allocates nothing.
  if (task) running_.push_back(task);
  return task;
}

void MigrationWorkers::lead_no_longer(const MigrationTask& first) noexcept {
  const MutexLock lock(queue_mutex_);
  std::erase_if(leaders_, [&](const Leader& leader) { return leader.first.get() == &first; });
  queue_changed_.notify_all();
}

void MigrationWorkers::work() {
  constexpr std::chrono::milliseconds look_period(1);  // A free ends its claim without notice.
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
      queue_changed_.notify_all();
      continue;
    }
    if (stopping_ && waiting_.empty()) return;
    if (waiting_.empty()) {
      queue_changed_.wait(
          lock, [&]() VMART_NO_THREAD_ANALYSIS { return stopping_ || !waiting_.empty(); });
    } else {
      Clock& clock = parts_.memory.driver().clock();
      queue_changed_.wait_until(lock, clock, clock.now() + look_period, [] { return false; });
    }
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
  const auto belongs = [&](const MigrationTask& which) {
    return which.group == first->group && may_share_hold(which);
  };
  if (!is_held(*first) || !first->group || !may_share_hold(*first)) return;
  try {
    tasks.push_back(first);
    while (true) {
      tasks.reserve(tasks.size() + 1);
      running_.reserve(running_.size() + workers_.size() + 1);
      std::shared_ptr<MigrationTask> next = waiting_.take(std::cref(belongs));
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
    waiting_.ended(*task);
    queue_changed_.notify_all();
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
  queue_changed_.notify_all();
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
