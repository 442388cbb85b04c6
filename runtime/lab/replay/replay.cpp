#include "lab/replay/replay.hpp"

#include <vma/error.hpp>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>
#include <variant>

namespace vma {
namespace {

/// Skips ticks while nothing happens: at once when idle, otherwise after half of `quiet_max`. Ticks
/// resume half of `quiet_max` before the next event. So an access of half a year costs no more to
/// replay than one of a minute.
constexpr std::chrono::seconds quiet_max(60);
constexpr double access_bytes_max = 1e18;
constexpr std::chrono::hours span_max(366 * 24);  // Limit for the length of a trace.

}  // namespace

Replay::Replay(const ReplayMachine& machine, const ReplayOptions& options,
               std::unique_ptr<Policy> policy, std::unique_ptr<Router> router)
    : options_(options),
      account_(machine, options_),
      scheduler_(machine.places, machine.costs, options_.scheduler, std::move(policy)),
      traffic_(machine.links),
      moves_(machine, options_, traffic_),
      memory_(machine, options_, scheduler_, moves_, account_, now_),
      tasks_(options_.steps_span),
      admission_(options_, machine.costs.gpus(), memory_, tasks_, now_),
      launches_(options_, scheduler_, memory_),
      devices_(machine, options_, scheduler_, traffic_, moves_, memory_, tasks_, account_,
               launches_, now_),
      router_(std::move(router)) {}

/// Order of what happens at the same time: flows end; gates open and copies begin; accesses in
/// progress report uses; the scheduler collects uses; the scheduler ticks; the trace continues.
ReplayReport Replay::run(TraceSource& source) {
  source_.emplace(source);
  if (!read_head())
    throw Error(ErrorKind::invalid_argument, "Replay::run", "the trace has no events");
  now_ = batch_[head_].time;
  account_.begin(source.tags(), now_);
  memory_.begin(source.tags());
  scheduler_.set_now(now_);
  Time collect = Time::max(), tick = now_ + options_.tick, report = now_ + options_.use_interval;
  Time happened = now_;
  admit();
  while (more_ || devices_.busy() || tasks_.busy()) {
    const bool used = scheduler_.has_uses() || launches_.has_any();
    if (used && collect == Time::max()) collect = now_ + options_.collect_every;
    if (scheduler_.has_hints()) collect = now_;  // A hint wakes the scheduler.
    const Time event = std::min({traffic_.next_end(), moves_.next(now_), next_admission(),
                                 devices_.next_begin(), tasks_.next()});
    const bool idle = !devices_.busy() && scheduler_.under_way() == 0;
    if (event == Time::max() && collect == Time::max() && (traffic_.size() > 0 || idle)) {
      if (admission_.release()) {
        start_admitted();
        continue;
      }
      throw Error(ErrorKind::invalid_argument, "Replay::run", "an access or a task never ends");
    }
    const bool quiet = idle || tick - happened > quiet_max / 2;
    if (quiet && collect == Time::max() && event < Time::max() && event - tick > quiet_max)
      tick = report = event - quiet_max / 2;
    now_ = std::min({event, collect, tick, devices_.has_unreported() ? report : Time::max()});
    if (now_ == event) happened = now_;
    scheduler_.set_now(now_);
    if (account_.window_over(now_)) account_.pass_window(now_, scheduler_.resident_bytes());
    while (traffic_.next_end() <= now_) end_flow();
    end_moves();
    devices_.begin_due();
    tasks_.pass(now_);
    if (report <= now_) {
      if (devices_.has_unreported()) devices_.report_uses();
      report += (now_ - report) / options_.use_interval * options_.use_interval;
      report += options_.use_interval;
    }
    if (collect <= now_) {
      collect = Time::max();
      scheduler_.watch_pace(devices_.progress());
      if (launches_.has_any()) launches_.tell(now_);
      if (scheduler_.has_uses() || scheduler_.has_hints()) scheduler_.collect();
      memory_.start_moves();
    }
    if (tick <= now_) {
      tick += options_.tick;
      if (options_.at_tick) options_.at_tick();
      scheduler_.tick();
      memory_.start_moves();
    }
    admit();
  }
  ReplayReport result = account_.finish(scheduler_);
  result.end = std::max(result.end, tasks_.last_end());
  result.closed_loop = tasks_.size() > 0;
  result.requests = tasks_.take_requests();
  admission_.complete(result.requests);
  return result;
}

/// The next flow, of an access or of a move, has ended.
void Replay::end_flow() {
  const FlowId flow = traffic_.next();
  traffic_.end(flow, now_);
  if (!moves_.take_end(flow, now_)) return devices_.end_flow(flow);
  if (!moves_.gate_shut()) devices_.shut_gate();
}

void Replay::end_moves() {
  const std::optional<ReplayMoves::Opened> opened = moves_.advance(now_);
  if (!opened) return devices_.shut_gate();  // The next gate may be due.
  account_.gate_opened(opened->skew, opened->stall);
  std::vector<ReplayMemory::Index> moved;
  for (const ReplayMoves::Ended& move : opened->moves)
    moved.push_back(memory_.end_move(move, opened->stall));
  devices_.open(moved);
  memory_.start_moves();  // The moves that ended have freed room.
}

// --- The trace

/// Makes `batch_[head_]` the next event. Returns false after the last one.
bool Replay::read_head() {
  if (head_ < batch_.size()) return true;
  if (!more_) return false;
  batch_ = source_->next();
  head_ = 0;
  more_ = !batch_.empty();
  return more_;
}

void Replay::admit() {
  read_on();
  start_admitted();
}

/// Takes the events of the trace that happen now.
void Replay::read_on() {
  do_due();
  while (read_head()) {
    const TraceEvent& event = batch_[head_];
    if (event.time - account_.begun() > span_max)
      account_.refuse(event, "more than a year after the first event");
    if (!tasks_.belongs(event)) {
      close_declaration();
      do_due();
    }
    if (options_.pacing == Pacing::timed && event.time > now_) return;
    if (!take(event)) return;
    account_.event_taken();
    ++head_;
  }
  close_declaration();
  do_due();
}

/// Starts the tasks of requests that waited for memory.
void Replay::start_admitted() {
  while (const auto ready = admission_.next()) {
    // Only a task that writes again what was lost is new: others keep the device that they name.
    if (ready->task >= task_devices_.size()) task_devices_.resize(ready->task + 1, ready->device);
    if (!start(ready->task)) due_.emplace_back(ready->task);
    do_due();
  }
}

/// The next time at which the trace can continue without other events.
Time Replay::next_admission() const {
  Time next = Time::max();
  if (memory_.waits_for_room() && memory_.room_until() > now_) next = memory_.room_until();
  if (!more_ || head_ >= batch_.size() || options_.pacing == Pacing::at_once) return next;
  const Time time = batch_[head_].time;
  return time > now_ ? std::min(next, time) : next;
}

bool Replay::take(const TraceEvent& event) {
  switch (event.kind) {
    case TraceEventKind::access:
      if (!tasks_.belongs(event)) return take_access(event);
      tasks_.add(event);
      return true;
    case TraceEventKind::allocation:
    case TraceEventKind::free:
    case TraceEventKind::mark:
    case TraceEventKind::hint:
      if (tasks_.belongs(event)) {
        tasks_.add(event);
        return true;
      }
      if (event.task != 0 && !tasks_.knows(event.task))
        account_.refuse(event, "of a task that was not declared");
      return tasks_.defer(event) || carry_out(event);
    case TraceEventKind::place: return memory_.place(event);
    case TraceEventKind::tag: memory_.set_tag(event); return true;
    case TraceEventKind::task:
      if (event.duration > span_max / static_cast<Time::rep>(event.bytes))
        account_.refuse(event, "which takes more than a year");
      if (!tasks_.declare(event, now_))
        account_.refuse(event, "of a task that was declared before");
      return true;
    case TraceEventKind::after:
      if (!tasks_.belongs(event) || !tasks_.knows(static_cast<std::uint32_t>(event.object)))
        account_.refuse(event, "of a task that was not declared");
      tasks_.add(event);
      return true;
  }
  return true;
}

/// Returns false if the event has to wait for room.
bool Replay::carry_out(const TraceEvent& event) {
  if (event.kind == TraceEventKind::allocation) return memory_.allocate(event);
  if (event.kind == TraceEventKind::mark) {
    account_.mark(event.tag, now_);
    return true;
  }
  if (event.kind == TraceEventKind::hint) {
    give_hint(event, event.task == 0 ? std::nullopt : tasks_.find(event.task));
    return true;
  }
  if (!memory_.free(event)) return false;
  router_.forget(event.object);
  launches_.forget(event.object);
  return true;
}

ReplayDevices::Access Replay::access_of(const TraceEvent& event) const {
  ReplayDevices::Access access;
  access.object = memory_.require(event);
  if (event.offset + event.bytes > memory_.object(access.object).bytes)
    account_.refuse(event, "past its end");
  access.offset = event.offset;
  access.bytes = event.bytes;
  access.passes = event.use == UseKind::read_write ? 2.0 * event.passes : event.passes;
  access.duration = event.duration;
  access.came = now_;
  access.use = event.use;
  if (access.all_bytes() > access_bytes_max) account_.refuse(event, "of more than 10^18 bytes");
  if (event.duration > span_max) account_.refuse(event, "which takes more than a year");
  return access;
}

bool Replay::take_access(const TraceEvent& event) {
  ReplayDevices::Access access = access_of(event);
  if (!head_device_) head_device_ = router_.choose(source_->from(event), devices_.loads());
  const std::size_t device = *head_device_;
  // Also while the trace was held back: time that no access counts would be free (coordinated
  // omission, as G. Tene calls it).
  if (options_.pacing == Pacing::timed) access.came = event.time;
  if (!devices_.has_room(device)) return false;
  const PlaceId self{static_cast<std::uint8_t>(device)};
  const ReplayObjects::Object& object = memory_.object(access.object);
  if (!object.placed && !memory_.place_at_first_touch(access.object, self)) return false;
  head_device_.reset();
  access.first_of_round = devices_.begins_round(event, device, access.all_bytes());
  if (object.chunks == 0) {
    account_.access_lost();
  } else {
    devices_.take(device, access);
  }
  return true;
}

// --- Closed loops

/// Carries out what tasks have made possible. What waits for room stays, and is tried again.
void Replay::do_due() {
  while (tasks_.has_due() || (!due_.empty() && memory_.may_have_room())) {
    std::ranges::move(tasks_.take_due(), std::back_inserter(due_));
    std::vector<ReplayTasks::Due> tried = std::exchange(due_, {});
    for (ReplayTasks::Due& due : tried) {
      const auto* const event = std::get_if<TraceEvent>(&due);
      if (event != nullptr ? !carry_out(*event) : !start(std::get<ReplayTasks::Index>(due)))
        due_.push_back(std::move(due));
    }
    if (due_.size() == tried.size() && !tasks_.has_due()) return;
  }
}

/// Begins the task's next steps. Returns false if memory that they touch first waits for room.
bool Replay::start(ReplayTasks::Index task) {
  const ReplayTasks::Steps steps = tasks_.steps(task);
  const std::size_t device = task_devices_[task];
  if (!admission_.admits(task, steps, device)) return true;  // It keeps the task.
  const PlaceId self{static_cast<std::uint8_t>(device)};
  for (const TraceEvent& event : steps.accesses) {
    const ReplayMemory::Index object = memory_.require(event);
    if (!memory_.object(object).placed && !memory_.place_at_first_touch(object, self)) return false;
  }
  std::vector<ReplayDevices::Access> accesses;
  for (const TraceEvent& event : steps.accesses) {
    ReplayDevices::Access access = access_of(event);
    access.passes *= static_cast<double>(steps.count);
    if (access.all_bytes() > access_bytes_max) account_.refuse(event, "of more than 10^18 bytes");
    access.duration = steps.duration;
    access.task = task;
    if (memory_.object(access.object).chunks > 0) {
      accesses.push_back(access);
    } else {
      account_.access_lost();
    }
  }
  for (const TraceEvent& hint : steps.hints) give_hint(hint, task);
  admission_.began(task, steps);
  tasks_.began(task, accesses.size(), now_);
  for (const ReplayDevices::Access& access : accesses) devices_.take(device, access);
  return true;
}

/// As `vma::advise`. `by`: the task that gives it, whose device is meant if the hint names none.
void Replay::give_hint(const TraceEvent& event, std::optional<ReplayTasks::Index> by) {
  const std::size_t gpus = devices_.loads().size();
  const std::size_t device =
      TaskRouter::named(event.at, gpus).value_or(by ? task_devices_[*by] : 0);
  account_.hint_given(memory_.hint(event, PlaceId{static_cast<std::uint8_t>(device)}));
}

/// Completes the declaration in progress: its task gets its device, as all of its request's tasks.
void Replay::close_declaration() {
  const ReplayTasks::Index task = tasks_.close();
  if (task == ReplayTasks::none) return;
  const ReplayTasks::Steps steps = tasks_.steps(task);
  const std::size_t device = router_.choose(
      {steps.accesses, steps.at, steps.request, steps.repeat, steps.lasts}, devices_.loads());
  task_devices_.resize(std::max(task_devices_.size(), task + std::size_t{1}));
  task_devices_[task] = device;
}

}  // namespace vma
