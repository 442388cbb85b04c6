#include "lab/replay/replay_devices.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace vma {
namespace {

/// Roughly the number of launches that a stream accepts before it blocks the program.
constexpr std::size_t launched_max = 1024;

/// More slices would make long accesses slow to replay, and hardly more exact.
constexpr int slices_max = 1024;

/// Of the bytes of an access, at least as much as sums of its slices lose.
constexpr double rounding = 1e-9;

/// The share of an access's bytes that it writes.
double written_share(UseKind use) {
  return use == UseKind::read ? 0 : use == UseKind::write ? 1 : 0.5;
}

}  // namespace

ReplayDevices::ReplayDevices(const ReplayMachine& machine, const ReplayOptions& options,
                             ReplayScheduler& scheduler, LinkTraffic& traffic, ReplayMoves& moves,
                             ReplayMemory& memory, ReplayTasks& tasks, ReplayAccount& account,
                             LaunchUses& launches, const Time& now)
    : machine_(machine),
      options_(options),
      scheduler_(scheduler),
      traffic_(traffic),
      moves_(moves),
      memory_(memory),
      tasks_(tasks),
      account_(account),
      launches_(launches),
      now_(now),
      devices_(machine.costs.gpus()),
      loads_(machine.costs.gpus()) {}

bool ReplayDevices::busy() const {
  return std::ranges::any_of(devices_, &Device::has_work);
}

void ReplayDevices::take(std::size_t number, const Access& access) {
  memory_.pin(access.object);
  ++loads_[number].waiting;
  loads_[number].bytes += access.all_bytes();
  devices_[number].queue.push_back(access);
  devices_[number].queue.back().stopped = stopped(number);
  if (access.task == ReplayTasks::none) ++devices_[number].queued_open;
  if (launches_.are_told())
    launches_.launch(access.object, access.offset, PlaceId{static_cast<std::uint8_t>(number)}, 1);
  // Likely used soon: other accesses touch their rows before this one begins.
  __builtin_prefetch(&scheduler_.snapshot().chunk(memory_.object(access.object).first));
  begin_next(number);
}

/// How long gates have stopped the device so far.
Time ReplayDevices::stopped(std::size_t device) const {
  const Device& own = devices_[device];
  return own.stands ? own.stopped + (now_ - *own.stands) : own.stopped;
}

void ReplayDevices::begin_next(std::size_t number) {
  Device& device = devices_[number];
  device.next = Time::max();
  while (!device.queue.empty()) {
    if (moves_.gate_shut() && device.before_gate == 0) {
      if (!device.stands) device.stands = now_;
      return;
    }
    const Access access = device.queue.front();
    const bool limited = access.task == ReplayTasks::none && device.running >= options_.spread_max;
    if (access.spread() ? limited : device.kernels > 0) return;
    if (const Time ready = ready_at(number, access); ready > now_) {
      device.next = ready;
      return;
    }
    device.queue.pop_front();
    if (access.task == ReplayTasks::none) --device.queued_open;
    const bool last = moves_.gate_shut() && --device.before_gate == 0;
    begin(number, access);
    // If the last access was lost, no kernel will end.
    if (last && device.kernels == 0) moves_.arrive(now_);
  }
}

/// A kernel begins only after a gap that follows the previous one.
Time ReplayDevices::ready_at(std::size_t device, const Access& access) const {
  const LaunchGaps& gaps = machine_.gaps;
  const Device& own = devices_[device];
  const bool waited =
      access.first_of_round || (options_.ahead > Time::zero() && own.ended >= own.batch_end);
  const std::vector<Time>& gap = waited ? gaps.round : gaps.kernel;
  if (access.spread() || gap.empty() || own.ended == Time::min()) return Time::min();
  return own.ended + gap[device];
}

Time ReplayDevices::next_begin() const {
  Time next = Time::max();
  for (const Device& device : devices_) next = std::min(next, device.next);
  return next;
}

void ReplayDevices::begin_due() {
  for (std::size_t device = 0; device < devices_.size(); ++device)
    if (devices_[device].next <= now_) begin_next(device);
}

/// How many queued accesses the program has launched by now, given that it waits at the end of each
/// round or batch.
std::size_t ReplayDevices::launched(const Device& device) const {
  std::size_t most = options_.rounds ? launched_max : 0;
  if (device.kernels > 0 && device.batch_end > now_) {
    const Time left = device.batch_end - now_;
    most = static_cast<std::size_t>(left / std::max(device.kernel_took, Time(1)));
  }
  if (most == 0) return 0;
  const auto after = std::ranges::find_if(
      device.queue, [](const Access& access) { return access.first_of_round || access.spread(); });
  return std::min(static_cast<std::size_t>(after - device.queue.begin()),
                  std::min(most, launched_max));
}

/// A round begins with an access that arrives when all earlier ones can have ended. Each is taken
/// to last half of the minimum by the machine's costs: a slight overestimate per launch would add
/// up, and no round would ever end.
bool ReplayDevices::begins_round(const TraceEvent& event, std::size_t number, double bytes) {
  if (!options_.rounds || event.duration > Time::zero()) return false;
  constexpr double surely = 0.5;
  const PlaceId self{static_cast<std::uint8_t>(number)};
  const double least = surely * machine_.costs.access_seconds(self, self, bytes);
  Time& could_end = devices_[number].could_end;
  const bool first = event.time >= could_end;
  could_end = std::max(event.time, could_end) +
              std::chrono::duration_cast<Time>(std::chrono::duration<double>(least));
  return first;
}

void ReplayDevices::begin(std::size_t number, const Access& access) {
  if (unused_.empty()) unused_.emplace_back();
  Running& running = unused_.front();
  running.access = access;
  running.device = number;
  if (!find_parts(running)) {
    // An access that cannot be performed in full is dropped: policies and devices never see it.
    account_.access_lost();
    return leave(number, access);
  }
  running_.splice(running_.end(), unused_, unused_.begin());
  running.began = now_;
  running.bytes = AccessBytes(static_cast<double>(access.bytes), access.passes);
  running.done = 0;
  running.reported = {};
  running.launched = 1;
  running.alternates = false;
  const double bytes = running.bytes.all();
  const double work = std::chrono::duration<double>(access.duration).count();
  running.rate_max = work > 0 ? bytes / work : std::numeric_limits<double>::infinity();
  const PlaceId self{static_cast<std::uint8_t>(number)};
  running.local_s = std::max(work, machine_.costs.access_seconds(self, self, bytes));
  running.to_write = bytes * written_share(access.use);
  Device& device = devices_[number];
  ++device.running;
  device.kernels += access.spread() ? 0 : 1;
  if (!access.spread() && options_.ahead > Time::zero() && now_ >= device.batch_end)
    device.batch_end = now_ + options_.ahead;
  running.stopped = stopped(number);
  account_.access_began(now_ - access.came - (running.stopped - access.stopped));
  ++unreported_;
  report(running, running.rate_max * std::chrono::duration<double>(options_.use_interval).count());
  cut(running);
  begin_segment(std::prev(running_.end()));
}

/// Finds where each chunk of the access lies. Returns false if one is unreachable.
bool ReplayDevices::find_parts(Running& running) const {
  const PlaceId self{static_cast<std::uint8_t>(running.device)};
  const Access& access = running.access;
  const ReplayObjects::Object& object = memory_.object(access.object);
  const Snapshot snapshot = scheduler_.snapshot();
  const std::uint64_t end = access.offset + access.bytes;
  running.parts.clear();
  for (std::uint64_t slot = access.offset / object.chunk_bytes; slot < object.chunks; ++slot) {
    const std::uint64_t begin = slot * object.chunk_bytes;
    if (begin >= end) break;
    const ChunkId chunk{static_cast<std::uint32_t>(index(object.first) + slot)};
    const std::uint64_t first = std::max(begin, access.offset);
    const std::uint64_t last = std::min(begin + object.bytes_of(slot), end);
    const PlaceId at = snapshot.chunk(chunk).at;
    if (machine_.links.read(self, at).rate_max <= 0) return false;
    running.parts.push_back({chunk, at, static_cast<double>(first - access.offset),
                             static_cast<double>(last - access.offset)});
  }
  return true;
}

/// A kernel, and what lies at one place, is one slice. Passes over several places alternate between
/// them, in slices of `use_interval`, but at most `slices_max`.
void ReplayDevices::begin_slice(Running& running) const {
  const std::vector<Part>& parts = running.parts;
  running.alternates =
      std::ranges::any_of(parts, [&](const Part& part) { return part.at != parts.front().at; });
  running.slice_begin = running.done;
  running.slice_end = running.bytes.all();
  if (!running.access.spread() || !running.alternates) return;
  const Time slice = std::max(options_.use_interval, running.access.duration / slices_max);
  const double bytes = running.rate_max * std::chrono::duration<double>(slice).count();
  const double end = running.done + bytes;
  if (end + bytes / 2 < running.bytes.all()) running.slice_end = end;
}

/// Splits the access's next slice, or what a move has left of the current one, into segments that
/// are at one place each. A `read_write` access reads each segment before it writes it. Requires:
/// the parts are where they lie now.
void ReplayDevices::cut(Running& running) {
  const double least = rounding * running.bytes.all();
  if (!running.alternates || running.slice_end - running.done <= least) begin_slice(running);
  const PlaceId self{static_cast<std::uint8_t>(running.device)};
  const double left = running.bytes.all() - running.done;
  const double written = left > 0 ? std::clamp(running.to_write / left, 0.0, 1.0) : 0;
  const AccessBytes::Point begin = running.bytes.point(running.slice_begin);
  const AccessBytes::Point end = running.bytes.point(running.slice_end);
  double skipped = running.done - running.slice_begin;  // The slice goes from part to part.
  const std::vector<Part>& parts = running.parts;
  running.segments.clear();
  running.segment = 0;
  for (auto part = parts.begin(); part != parts.end();) {
    const PlaceId at = part->at;
    double bytes = 0;
    for (; part != parts.end() && part->at == at; ++part) {
      const double all = running.bytes.in_part(begin, end, part->begin, part->end);
      const double before = std::min(all, skipped);
      skipped -= before;
      bytes += all - before;
    }
    if (bytes <= 0) continue;
    if (written < 1)
      running.segments.push_back(
          {&machine_.links.read(self, at), bytes * (1 - written), at, false});
    if (written > 0)
      running.segments.push_back({&machine_.links.write(self, at), bytes * written, at, true});
  }
  // Rounding may leave nothing of a slice.
  if (running.segments.empty())
    running.segments.push_back(
        {&machine_.links.read(self, parts.front().at), 0, parts.front().at, false});
}

/// Notes that the access has done so many bytes of its current segment.
void ReplayDevices::account_for(Running& running, double bytes) {
  const Segment& segment = running.segments[running.segment];
  running.done += bytes;
  if (segment.writes) running.to_write -= bytes;
  account_.reached(running.device, segment.at, bytes);
}

/// Reports the use of the access's bytes up to number `until`, unless uses do not matter. Once they
/// do, the next report has all from the access's begin on.
void ReplayDevices::report(Running& running, double until) {
  if (!scheduler_.wants_uses()) return;
  until = std::min(until, running.bytes.all());
  if (until <= running.reported.number) return;
  const double written = written_share(running.access.use);
  const PlaceId self{static_cast<std::uint8_t>(running.device)};
  const AccessBytes::Point end = running.bytes.point(until);
  if (launches_.are_told()) tell_launches(running, until);
  for (const Part& part : running.parts) {
    const double bytes = running.bytes.in_part(running.reported, end, part.begin, part.end);
    if (bytes > 0 && !launches_.are_told())
      scheduler_.use(part.chunk, self, bytes * (1 - written), bytes * written);
  }
  running.reported = end;
  if (until >= running.bytes.all()) --unreported_;
}

/// The kernels of an access that are launched until it has done so many bytes; the first one was
/// when it came.
void ReplayDevices::tell_launches(Running& running, double until) {
  const double all = running.access.launches();
  const double launched =
      std::min(std::max(std::ceil(all * until / running.bytes.all()), 1.0), all);
  if (launched <= running.launched) return;
  launches_.launch(running.access.object, running.access.offset,
                   PlaceId{static_cast<std::uint8_t>(running.device)}, launched - running.launched);
  running.launched = launched;
}

void ReplayDevices::report_uses() {
  const double interval = std::chrono::duration<double>(options_.use_interval).count();
  for (Running& running : running_) {
    if (running.reported.number >= running.bytes.all()) continue;
    const double segment = running.segments[running.segment].bytes;
    const double done = running.done + segment - traffic_.left(running.flow, now_);
    report(running, done + running.rate_max * interval);
  }
}

/// Begins the current segment of each.
void ReplayDevices::begin_segments(std::span<const RunningAccess> begun) {
  new_flows_.clear();
  for (const auto& running : begun)
    new_flows_.push_back({running->segments[running->segment].path,
                          running->segments[running->segment].bytes, running->rate_max,
                          running->access.spread() || suspends()});
  const std::span<const FlowId> flows = traffic_.begin(new_flows_, now_);
  for (std::size_t i = 0; i < begun.size(); ++i) {
    begun[i]->flow = flows[i];
    const auto number = static_cast<std::size_t>(flows[i]);
    if (by_flow_.size() <= number) by_flow_.resize(number + 1, running_.end());
    by_flow_[number] = begun[i];
  }
}

void ReplayDevices::begin_segment(RunningAccess running) {
  begin_segments(std::span(&running, 1));
}

/// Returns whether the access goes on: with its next segment, or its next slice.
bool ReplayDevices::end_segment(RunningAccess ended) {
  Running& running = *ended;
  account_for(running, running.segments[running.segment].bytes);
  if (++running.segment == running.segments.size()) {
    const double least = rounding * running.bytes.all();
    if (running.bytes.all() - running.done <= least) return false;
    cut(running);
  }
  begin_segment(ended);
  return true;
}

void ReplayDevices::end_flow(FlowId flow) {
  const auto ended = by_flow_[static_cast<std::size_t>(flow)];
  if (end_segment(ended)) return;
  const std::size_t number = ended->device;
  const bool spread = ended->access.spread();
  end_access(*ended);
  drop(ended);
  if (running_.empty()) account_.note_links(traffic_);
  Device& device = devices_[number];
  if (!moves_.gate_shut() || device.before_gate > 0) return begin_next(number);
  if (device.has_work() && !device.stands) device.stands = now_;
  if (!spread) moves_.arrive(now_);
}

/// Recycles the node, with the memory for its parts and segments.
void ReplayDevices::drop(RunningAccess running) {
  unused_.splice(unused_.begin(), running_, running);
}

void ReplayDevices::end_access(const Running& running) {
  const Access& access = running.access;
  Device& device = devices_[running.device];
  account_.access_ended({running.device, memory_.object(access.object).tag, running.bytes.all(),
                         running.local_s, running.began, stopped(running.device) - running.stopped},
                        now_);
  if (!access.spread()) {
    device.ended = now_;
    device.kernel_took = now_ - running.began;
  }
  leave_device(running);
}

void ReplayDevices::leave_device(const Running& running) {
  Device& device = devices_[running.device];
  --device.running;
  if (!running.access.spread()) --device.kernels;
  if (running.reported.number < running.bytes.all()) --unreported_;
  leave(running.device, running.access);
}

/// Takes an access off the device's load and from its task, and unpins its object.
void ReplayDevices::leave(std::size_t device, const Access& access) {
  DeviceLoad& load = loads_[device];
  --load.waiting;
  load.bytes -= access.all_bytes();
  if (load.waiting == 0) load.bytes = 0;  // Clears rounding errors.
  memory_.unpin(access.object);
  // What arrives at times of its own has the same pace whatever moves.
  const bool closed = access.task != ReplayTasks::none || options_.pacing == Pacing::at_once;
  progress_ += closed ? access.all_bytes() : 0;
  if (access.task != ReplayTasks::none) tasks_.access_ended(access.task, now_);
}

void ReplayDevices::open(std::span<const ReplayMemory::Index> moved) {
  std::vector<RunningAccess> recut;
  for (auto next = running_.begin(); next != running_.end();) {
    const auto running = next++;
    if (std::ranges::find(moved, running->access.object) == moved.end()) continue;
    const double left = traffic_.end(running->flow, now_);
    account_for(*running, running->segments[running->segment].bytes - left);
    if (!find_parts(*running)) {
      // The access began after the planner had accepted the move.
      account_.access_lost();
      leave_device(*running);
      drop(running);
      continue;
    }
    cut(*running);
    recut.push_back(running);
  }
  traffic_.resume(now_);
  begin_segments(recut);
  for (std::size_t device = 0; device < devices_.size(); ++device) {
    if (const auto since = std::exchange(devices_[device].stands, std::nullopt)) {
      devices_[device].stopped += now_ - *since;
      account_.device_stopped(device, now_ - *since);
    }
    begin_next(device);
  }
  shut_gate();
}

void ReplayDevices::shut_gate() {
  if (!moves_.wants_gate(now_)) return;
  traffic_.pause(now_);
  std::size_t kernels = 0;
  for (Device& device : devices_) {
    device.before_gate = suspends() ? 0 : launched(device);
    const bool runs = !suspends() && (device.kernels > 0 || device.before_gate > 0);
    kernels += runs ? 1 : 0;
    if (!runs && device.has_work()) device.stands = now_;
  }
  moves_.close(kernels, now_);
}

}  // namespace vma
