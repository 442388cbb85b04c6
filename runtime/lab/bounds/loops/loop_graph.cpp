#include "lab/bounds/loops/loop_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace vma {
namespace {

constexpr std::size_t visited_max = 64;  // Tasks that `follows` looks at.

/// As `ReplayDevices` cuts a long access: a slice is no shorter than a share of its duration, and
/// the last one may be longer than the others by a half.
constexpr double slices_most = 1024, slice_longest = 1.5;

}  // namespace

bool LoopGraph::follows(std::uint32_t later, std::uint32_t earlier) const {
  const LoopTask& sought = tasks[earlier];
  std::vector<std::uint32_t> found{later};
  for (std::size_t next = 0; next < found.size() && found.size() <= visited_max; ++next) {
    for (const std::uint32_t before : befores_of(tasks[found[next]])) {
      const LoopTask& task = tasks[before];
      if (before == earlier || (task.chain == sought.chain && task.rank >= sought.rank))
        return true;
      if (before > earlier && std::ranges::find(found, before) == found.end())
        found.push_back(before);
    }
    const LoopTask& task = tasks[found[next]];
    if (found[next] != earlier && task.chain == sought.chain && task.rank > sought.rank)
      return true;
  }
  return false;
}

/// A task continues the chain of a predecessor of the same request, or without requests, of the
/// same device.
void LoopGraph::find_chains(std::span<const std::uint64_t> requests) {
  std::vector<bool> continued(tasks.size());
  for (std::uint32_t number = 0; number < tasks.size(); ++number) {
    LoopTask& task = tasks[number];
    task.chain = chains;
    for (const std::uint32_t before : befores_of(task)) {
      const LoopTask& other = tasks[before];
      if (continued[before] || requests[before] != requests[number]) continue;
      if (requests[number] == 0 && other.device != task.device) continue;
      task.chain = other.chain;
      task.rank = other.rank + 1;
      task.chain_begin_s = other.chain_begin_s + other.compute_s;
      continued[before] = true;
      break;
    }
    if (task.chain == chains) ++chains;
  }
}

void LoopGraph::find_order(const LoopSegment& segment) {
  const std::span<LoopUse> all = std::span(uses).subspan(segment.first_use, segment.uses);
  const LoopUse* last = nullptr;
  for (LoopUse& use : all) {
    use.ordered = last == nullptr || use.task == last->task || follows(use.task, last->task);
    if (use.ordered) last = &use;
  }
}

void LoopGraph::find_ends() {
  for (LoopTask& task : tasks) {
    task.head_s = task.release_s;
    for (const std::uint32_t before : befores_of(task))
      task.head_s = std::max(task.head_s, tasks[before].head_s + tasks[before].least_s);
  }
  for (std::size_t number = tasks.size(); number-- > 0;) {
    const LoopTask& task = tasks[number];
    for (const std::uint32_t before : befores_of(task)) {
      double& tail = tasks[before].tail_s;
      tail = std::max(tail, task.tail_s + task.least_s);
    }
  }
}

LoopGraphBuilder::LoopGraphBuilder(const ReplayMachine& machine, const ReplayOptions& options,
                                   std::unique_ptr<Router> router)
    : machine_(machine),
      options_(options),
      router_(std::move(router)),
      loads_(machine.costs.gpus()) {}

LoopGraph LoopGraphBuilder::build(TraceSource& source) {
  constexpr std::size_t places_max = 64;  // Sets of them are words.
  if (machine_.places.size() > places_max)
    refuse(ErrorKind::unsupported, fmt::format("bounds of closed loops exist for machines of up to "
                                               "{} places, and this one has {}",
                                               places_max, machine_.places.size()));
  source_.emplace(source);
  for (auto events = source_->next(); !events.empty(); events = source_->next()) {
    for (const TraceEvent& event : events) {
      const std::optional<std::string> fault = audit_.add(event);
      if (fault)
        refuse(ErrorKind::invalid_argument, fmt::format("event {}: {}", audit_.events(), *fault));
      if (!begin_) begin_ = event.time;
      now_ = event.time;
      take(event);
    }
  }
  if (!begin_) refuse(ErrorKind::invalid_argument, "the trace has no events");
  close_declaration();
  while (!live_.empty()) end_object(live_.begin()->first);
  graph_.find_chains(requests_);
  for (LoopSegment& segment : graph_.segments) {
    const bool anywhere = std::ranges::any_of(machine_.places, [&](const PlaceState& place) {
      const auto number = static_cast<std::size_t>(&place - machine_.places.data());
      return (segment.begin_places >> number & 1) != 0 &&
             static_cast<double>(place.capacity_bytes) < bytes_;
    });
    // The place that the trace names may have been full.
    if (anywhere) segment.begin_places = ~std::uint64_t{0};
    if (segment.begin_places != 0) graph_.find_order(segment);
  }
  find_least();
  graph_.find_ends();
  return std::move(graph_);
}

void LoopGraphBuilder::take(const TraceEvent& event) {
  const bool belongs = open_ && open_->task == event.task && may_declare(event);
  if (!belongs) close_declaration();
  switch (event.kind) {
    case TraceEventKind::access:
      if (!belongs) return take_access(event);
      return open_accesses_.push_back(event);
    case TraceEventKind::after:
      graph_.befores.push_back(tasks_.at(static_cast<std::uint32_t>(event.object)));
      return;
    case TraceEventKind::task: return declare(event);
    case TraceEventKind::allocation: return allocate(event);
    case TraceEventKind::free: return end_object(event.object);
    case TraceEventKind::place: return place_again(event);
    case TraceEventKind::tag:
    case TraceEventKind::hint:
    case TraceEventKind::mark: return;
  }
}

double LoopGraphBuilder::seconds(Time time) const {
  return std::chrono::duration<double>(time).count();
}

void LoopGraphBuilder::allocate(const TraceEvent& event) {
  Object& object = live_[event.object];
  object = {};
  object.bytes = event.bytes;
  object.born = event.time;
  object.begin_places = ~std::uint64_t{0};
  bytes_ += static_cast<double>(event.bytes);
  object.index = graph_.objects.size();
  LoopObject& told = graph_.objects.emplace_back();
  told.number = event.object;
  told.bytes = static_cast<double>(event.bytes);
  told.born_s = seconds(event.time - *begin_);
  if (!event.at.is_set()) return;
  for (std::size_t place = 0; place < machine_.places.size(); ++place) {
    if (machine_.places[place].place != event.at.place()) continue;
    object.begin_places = std::uint64_t{1} << place;
    told.home = place;
  }
}

void LoopGraphBuilder::place_again(const TraceEvent& event) {
  Object& object = live_.at(event.object);
  object.begin_places = ~std::uint64_t{0};
  object.placed_again |= !object.ranges.empty() || event.time != object.born;
}

void LoopGraphBuilder::declare(const TraceEvent& event) {
  open_ = event;
  open_accesses_.clear();
  tasks_.emplace(event.task, static_cast<std::uint32_t>(graph_.tasks.size()));
  add_task(event, 0);  // Its device is known when all its accesses are.
  LoopTask& task = graph_.tasks.back();
  task.compute_s = seconds(event.duration) * static_cast<double>(event.bytes);
  requests_.back() = event.object;
}

void LoopGraphBuilder::add_task(const TraceEvent& event, std::size_t device) {
  LoopTask task;
  if (options_.pacing == Pacing::timed) task.release_s = seconds(event.time - *begin_);
  task.compute_s = seconds(event.duration);
  task.device = static_cast<std::uint32_t>(device);
  task.first_access = static_cast<std::uint32_t>(graph_.access_tasks.size());
  task.first_before = static_cast<std::uint32_t>(graph_.befores.size());
  graph_.tasks.push_back(task);
  requests_.push_back(0);
}

/// As in `Replay::close_declaration`.
std::size_t LoopGraphBuilder::device_of_declared(const TraceEvent& task) {
  const RoutedTask declared{open_accesses_, task.at, task.object, task.bytes,
                            static_cast<Time::rep>(task.bytes) * task.duration};
  if (!open_accesses_.empty() && !router_.known(declared, loads_.size()))
    require_known_router(task);
  return router_.choose(declared, loads_);
}

void LoopGraphBuilder::close_declaration() {
  if (!open_) return;
  const TraceEvent declared = *std::exchange(open_, std::nullopt);
  const auto number = static_cast<std::uint32_t>(graph_.tasks.size() - 1);
  LoopTask& task = graph_.tasks.back();
  task.befores = static_cast<std::uint32_t>(graph_.befores.size()) - task.first_before;
  task.device = static_cast<std::uint32_t>(device_of_declared(declared));
  for (TraceEvent access : open_accesses_) {
    access.duration = declared.duration;
    add_access(access, number, declared.bytes);
  }
}

void LoopGraphBuilder::take_access(const TraceEvent& event) {
  if (!event.at.is_set() || !event.at.is_gpu()) require_known_router(event);
  add_task(event, router_.choose(source_->from(event), loads_));
  add_access(event, static_cast<std::uint32_t>(graph_.tasks.size() - 1), 1);
}

void LoopGraphBuilder::require_known_router(const TraceEvent& event) const {
  if (!router_.reads_loads()) return;
  refuse(ErrorKind::unsupported,
         fmt::format("event {} ({}) names no device, and the choices of router '{}' depend on the "
                     "replay; use --router prefix, round_robin or hash",
                     audit_.events(), to_string(event.kind), router_.name()));
}

void LoopGraphBuilder::add_access(const TraceEvent& event, std::uint32_t task,
                                  std::uint64_t repeat) {
  Range range;
  range.begin = event.offset;
  range.end = event.offset + event.bytes;
  range.access = static_cast<std::uint32_t>(graph_.access_tasks.size());
  const bool both = event.use == UseKind::read_write;
  range.passes = (both ? 2.0 : 1.0) * event.passes * static_cast<double>(repeat);
  range.written = both ? 0.5 : event.use == UseKind::write ? 1 : 0;
  range.visits = visits_of(event, repeat);
  graph_.access_tasks.push_back(task);
  ++graph_.tasks[task].accesses;
  live_.at(event.object).ranges.push_back(range);
}

/// A replay does several short steps at once, and their passes slice by slice.
double LoopGraphBuilder::visits_of(const TraceEvent& access, std::uint64_t repeat) const {
  const double step = seconds(access.duration), steps = static_cast<double>(repeat);
  if (step <= 0) return 1;
  const double at_once = std::clamp(std::floor(seconds(options_.steps_span) / step), 1.0, steps);
  const double passes = access.passes * (access.use == UseKind::read_write ? 2.0 : 1.0);
  const double by_pass = steps / std::min(at_once, 1 / passes);
  const double slice = std::max(seconds(options_.use_interval), at_once * step / slices_most);
  return std::max(std::min(by_pass, steps * step / (slice_longest * slice)), 1.0);
}

void LoopGraphBuilder::end_object(std::uint64_t number) {
  const auto found = live_.find(number);
  graph_.objects[found->second.index].freed_s = seconds(now_ - *begin_);
  cut(found->second);
  live_.erase(found);
  router_.forget(number);
}

/// Divides an object where its accesses begin and end.
void LoopGraphBuilder::cut(const Object& object) {
  std::vector<std::uint64_t> ends;
  for (const Range& range : object.ranges) {
    ends.push_back(range.begin);
    ends.push_back(range.end);
  }
  std::ranges::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  for (std::size_t i = 1; i < ends.size(); ++i) add_segment(object, ends[i - 1], ends[i]);
}

void LoopGraphBuilder::add_segment(const Object& object, std::uint64_t begin, std::uint64_t end) {
  LoopSegment segment;
  segment.bytes = static_cast<double>(end - begin);
  segment.object = object.index;
  segment.begin_places = object.placed_again ? 0 : object.begin_places;
  segment.first_use = graph_.uses.size();
  for (const Range& range : object.ranges) {
    if (range.begin >= end || range.end <= begin) continue;
    LoopUse use;
    use.access = range.access;
    use.task = graph_.access_tasks[range.access];
    const double bytes = segment.bytes * range.passes;
    use.written_bytes = bytes * range.written;
    use.read_bytes = bytes - use.written_bytes;
    use.work_s = graph_.tasks[use.task].compute_s * segment.bytes /
                 static_cast<double>(range.end - range.begin);
    use.visits = range.visits;
    graph_.uses.push_back(use);
  }
  segment.uses = graph_.uses.size() - segment.first_use;
  if (graph_.uses.size() > uses_max)
    refuse(ErrorKind::unsupported, fmt::format("event {}: more than {} uses of parts of objects",
                                               audit_.events(), uses_max));
  if (segment.uses > 0) graph_.segments.push_back(segment);
}

/// The time of each task with every access at its best place.
void LoopGraphBuilder::find_least() {
  std::vector<double> accesses(graph_.access_tasks.size(), 0);
  for (const LoopUse& use : graph_.uses) {
    const PlaceId self{static_cast<std::uint8_t>(graph_.tasks[use.task].device)};
    double best = 0;
    for (std::size_t place = 0; place < machine_.places.size(); ++place)
      best = std::max(best,
                      machine_.costs.access_rate(self, PlaceId{static_cast<std::uint8_t>(place)}));
    if (best > 0)
      accesses[use.access] += std::max(use.work_s, (use.read_bytes + use.written_bytes) / best);
  }
  for (LoopTask& task : graph_.tasks) {
    task.least_s = task.compute_s;
    for (std::uint32_t access = 0; access < task.accesses; ++access)
      task.least_s = std::max(task.least_s, accesses[task.first_access + access]);
  }
}

void LoopGraphBuilder::refuse(ErrorKind kind, const std::string& why) {
  throw Error(kind, "bounds", why);
}

}  // namespace vma
