#include "lab/replay/replay_admission.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vma {

ReplayAdmission::ReplayAdmission(const ReplayOptions& options, std::size_t devices,
                                 ReplayMemory& memory, ReplayTasks& tasks, const Time& now)
    : options_(options),
      memory_(memory),
      tasks_(tasks),
      now_(now),
      pools_(options.admission_memory == AdmissionMemory::hbm ? devices : 1) {}

ReplayAdmission::Pool& ReplayAdmission::pool_of(const Request& request) {
  return pools_[pools_.size() > 1 ? request.device : 0];
}

ReplayAdmission::Request& ReplayAdmission::request_of(std::uint64_t number, std::size_t device) {
  const auto [found, added] = requests_.try_emplace(number);
  if (added) {
    found->second.number = number;
    found->second.device = device;
  }
  return found->second;
}

bool ReplayAdmission::in_progress(const Request& request) const {
  return std::ranges::any_of(request.started, [&](Task task) { return tasks_.in_progress(task); });
}

/// Whether it has memory to give up.
bool ReplayAdmission::holds(const Request& request) const {
  return std::ranges::any_of(request.written, [&](const Written& written) {
    return memory_.held_by(written.access.object, request.number);
  });
}

/// Whether memory has room for what the tasks touch first, and for what the request has lost.
bool ReplayAdmission::fits(const Request& request, std::span<const Task> tasks,
                           bool with_lost) const {
  std::vector<std::uint64_t> objects;
  for (const Task task : tasks)
    for (const TraceEvent& access : tasks_.steps(task).accesses) objects.push_back(access.object);
  if (with_lost)
    for (const Written& written : request.written) objects.push_back(written.access.object);
  std::ranges::sort(objects);
  objects.erase(std::ranges::unique(objects).begin(), objects.end());
  return memory_.fits(objects, PlaceId{static_cast<std::uint8_t>(request.device)},
                      options_.admission_memory);
}

bool ReplayAdmission::admits(Task task, const ReplayTasks::Steps& steps, std::size_t device) {
  if (options_.admission == Admission::none || steps.request == 0) return true;
  Request& request = request_of(steps.request, device);
  if (std::ranges::find(request.granted, task) != request.granted.end()) return true;
  if (request.leaves && !in_progress(request)) preempt(request);
  Pool& pool = pool_of(request);
  const bool first = !request.running && !request.queued && !request.lost && pool.queue.empty();
  const bool may = (request.running && !request.leaves) || first;
  if (may && request.running && !memory_.has_first_touch(steps.accesses)) return true;
  if (may && pool.granted == 0 && pool.growths.empty() && fits(request, {&task, 1}, false)) {
    if (first) {
      request.running = true;
      pool.running.push_back(&request);
    }
    grant(request, task);
    return true;
  }
  request.kept.push_back(task);
  ++waiting_;
  changed_ = true;
  if (!request.running) {
    enqueue(request);
  } else if (!request.leaves) {
    pool.growths.push_back({&request, task});
  }
  return false;
}

void ReplayAdmission::grant(Request& request, Task task) {
  request.granted.push_back(task);
  ++pool_of(request).granted;
}

void ReplayAdmission::enqueue(Request& request) {
  if (request.queued || request.kept.empty()) return;
  request.queued = true;
  request.queued_at = now_;
  std::deque<Request*>& queue = pool_of(request).queue;
  if (request.lost) {
    queue.push_front(&request);
  } else {
    queue.push_back(&request);
  }
}

void ReplayAdmission::began(Task task, const ReplayTasks::Steps& steps) {
  if (options_.admission == Admission::none) return;
  if (steps.request == 0) {  // What it uses of a request's is shared from now on.
    for (const TraceEvent& access : steps.accesses) memory_.used_by(access.object, 0, false);
    return;
  }
  Request& request = requests_.at(steps.request);
  if (std::erase(request.granted, task) > 0) {
    --pool_of(request).granted;
    changed_ = true;
  }
  std::erase_if(request.started, [&](Task one) { return !tasks_.in_progress(one); });
  request.started.push_back(task);
  const bool first = !std::exchange(request.has_begun, true);
  if (first) request.first_compute = steps.duration / static_cast<Time::rep>(steps.count);
  for (const TraceEvent& access : steps.accesses) {
    const bool writes = access.use != UseKind::read;
    memory_.used_by(access.object, request.number, writes);
    if (first && !writes) request.reads.push_back(access);
    if (!writes || steps.again) continue;
    const double once = static_cast<double>(access.bytes) * static_cast<double>(access.passes);
    if (first) request.first_written += std::min(once, static_cast<double>(access.bytes));
    auto known = std::ranges::find_if(request.written, [&](const Written& written) {
      return written.access.object == access.object && written.access.offset == access.offset;
    });
    if (known == request.written.end()) known = request.written.insert(known, {access, 0});
    known->access.bytes = std::max(known->access.bytes, access.bytes);
    known->bytes = std::min(known->bytes + once * static_cast<double>(steps.count),
                            static_cast<double>(known->access.bytes));
  }
  if (steps.repeat > 1 && !steps.again) request.steps += steps.count;
}

std::optional<ReplayAdmission::Ready> ReplayAdmission::next() {
  if (ready_.empty() && waiting_ > 0) {
    changed_ |= memory_changes_ != memory_.changes() || tasks_ended_ != tasks_.ended();
    memory_changes_ = memory_.changes();
    tasks_ended_ = tasks_.ended();
    while (std::exchange(changed_, false) && ready_.empty())
      for (Pool& pool : pools_)
        if (advance(pool)) break;
    changed_ |= !ready_.empty();
  }
  if (ready_.empty()) return std::nullopt;
  const Ready ready = ready_.front();
  ready_.pop_front();
  return ready;
}

bool ReplayAdmission::advance(Pool& pool) {
  std::erase_if(pool.running, [&](Request* request) {
    if (tasks_.unfinished(request->number) > 0) return false;
    request->running = request->leaves = false;
    return true;
  });
  const std::vector<Request*> running = pool.running;
  for (Request* const request : running)
    if (request->leaves && !in_progress(*request)) preempt(*request);
  if (pool.granted > 0) return false;
  return pool.growths.empty() ? advance_queue(pool, false) : advance_growth(pool, false);
}

bool ReplayAdmission::all_grow(const Pool& pool) const {
  return std::ranges::none_of(pool.running, [&](const Request* request) {
    return request->kept.empty() || in_progress(*request);
  });
}

/// The running request whose growth waits longest goes on, or the youngest makes room for it.
bool ReplayAdmission::advance_growth(Pool& pool, bool at_any_cost) {
  const Growth growth = pool.growths.front();
  Request& request = *growth.request;
  const bool preempts = options_.admission == Admission::preempt;
  const bool room = fits(request, {&growth.task, 1}, false);
  Request* victim = nullptr;
  if (!room && !at_any_cost && preempts) {
    if (std::ranges::any_of(pool.running, &Request::leaves) || memory_.vacates()) return false;
    victim = youngest(pool);
    const bool others = std::ranges::any_of(
        pool.running, [&](const Request* other) { return other != &request && holds(*other); });
    if (!others) victim = nullptr;  // The request alone needs more than there is.
  }
  if (room || at_any_cost || (preempts ? victim == nullptr : all_grow(pool))) {
    pool.growths.pop_front();
    std::erase(request.kept, growth.task);
    --waiting_;
    grant(request, growth.task);
    ready_.push_back({growth.task, request.device});
    return true;
  }
  if (victim == nullptr) return false;
  victim->leaves = true;
  std::erase_if(pool.growths, [&](const Growth& other) { return other.request == victim; });
  if (!in_progress(*victim)) preempt(*victim);
  return false;
}

/// The request that was admitted last, of those that hold memory. Null if there is none.
ReplayAdmission::Request* ReplayAdmission::youngest(const Pool& pool) const {
  const auto found = std::find_if(pool.running.rbegin(), pool.running.rend(),
                                  [&](const Request* request) { return holds(*request); });
  return found == pool.running.rend() ? nullptr : *found;
}

bool ReplayAdmission::advance_queue(Pool& pool, bool at_any_cost) {
  if (pool.queue.empty()) return false;
  Request& request = *pool.queue.front();
  const bool alone = pool.running.empty() && !memory_.vacates();
  if (!alone && !at_any_cost && !fits(request, request.kept, request.lost)) return false;
  pool.queue.pop_front();
  pool.running.push_back(&request);
  start(request);
  return true;
}

/// The request leaves the queue.
void ReplayAdmission::start(Request& request) {
  request.queued = false;
  request.running = true;
  request.delays.queued += now_ - request.queued_at;
  waiting_ -= request.kept.size();
  const std::vector<Task> kept = std::exchange(request.kept, {});
  if (std::exchange(request.lost, false)) {
    if (const Task again = write_again(request, kept); again != ReplayTasks::none) {
      grant(request, again);
      ready_.push_back({again, request.device});
      return;
    }
  }
  for (const Task task : kept) {
    grant(request, task);
    ready_.push_back({task, request.device});
  }
}

/// Declares the task that writes again what the request has lost, before `kept` go on: its first
/// task, whose compute grows with the bytes, as when an engine processes the prompt and the output
/// so far. Returns `none` if nothing is left to write.
ReplayAdmission::Task ReplayAdmission::write_again(Request& request, std::span<const Task> kept) {
  std::vector<TraceEvent> accesses;
  for (const TraceEvent& read : request.reads)
    if (memory_.exists(read.object)) accesses.push_back(read);
  double bytes = 0;
  for (const Written& written : request.written) {
    if (written.bytes <= 0 || !memory_.has_first_touch({&written.access, 1})) continue;
    TraceEvent& access = accesses.emplace_back(written.access);
    access.use = UseKind::write;
    access.bytes = static_cast<std::uint64_t>(std::ceil(written.bytes));
    access.passes = 1;
    bytes += written.bytes;
  }
  if (bytes <= 0) return ReplayTasks::none;
  TraceEvent task;
  task.kind = TraceEventKind::task;
  task.time = now_;
  task.object = request.number;
  task.bytes = 1;
  const double scale = request.first_written > 0 ? bytes / request.first_written : 1;
  task.duration = Time(std::llround(static_cast<double>(request.first_compute.count()) * scale));
  request.delays.steps_again += request.steps;
  request.delays.bytes_again += bytes;
  return tasks_.declare_again(task, accesses, kept);
}

/// Requires: none of its steps is in progress.
void ReplayAdmission::preempt(Request& request) {
  Pool& pool = pool_of(request);
  request.leaves = request.running = false;
  request.lost = true;
  ++request.delays.preemptions;
  for (const Written& written : request.written)
    if (memory_.held_by(written.access.object, request.number))
      memory_.vacate(written.access.object);
  std::erase(pool.running, &request);
  std::erase_if(pool.growths, [&](const Growth& growth) { return growth.request == &request; });
  enqueue(request);
  changed_ = true;
}

bool ReplayAdmission::release() {
  for (Pool& pool : pools_) {
    if (pool.growths.empty() ? advance_queue(pool, true) : advance_growth(pool, true)) return true;
  }
  return false;
}

void ReplayAdmission::complete(std::span<ReplayRequest> requests) const {
  for (ReplayRequest& request : requests) {
    const auto known = requests_.find(request.number);
    if (known == requests_.end()) continue;
    request.delays = known->second.delays;
  }
}

}  // namespace vma
