#include "lab/replay/replay_devices.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <utility>

namespace vma {
namespace {

/// Roughly the number of launches that a stream accepts before it blocks the program.
constexpr std::size_t launched_max = 1024;

}  // namespace

ReplayDevices::ReplayDevices(const ReplayMachine& machine, const ReplayOptions& options,
                             ReplayScheduler& scheduler, LinkTraffic& traffic, ReplayMoves& moves,
                             ReplayMemory& memory, ReplayAccount& account, const Time& now)
    : machine_(machine),
      options_(options),
      scheduler_(scheduler),
      traffic_(traffic),
      moves_(moves),
      memory_(memory),
      account_(account),
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
  // Likely used soon: other accesses touch their rows before this one begins.
  __builtin_prefetch(&scheduler_.snapshot().chunk(memory_.object(access.object).first));
  begin_next(number);
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
    if (access.spread() ? device.running >= options_.spread_max : device.kernels > 0) return;
    if (const Time ready = ready_at(number, access); ready > now_) {
      device.next = ready;
      return;
    }
    device.queue.pop_front();
    const bool last = moves_.gate_shut() && --device.before_gate == 0;
    begin(number, access);
    if (last && device.kernels == 0)
      moves_.arrive(now_);  // The last access was lost, so no kernel
                            // will end.
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
  if (!find_pieces(PlaceId{static_cast<std::uint8_t>(number)}, access)) {
    // An access that cannot be performed in full is dropped: policies and devices never see it.
    account_.access_lost();
    return leave(number, access);
  }
  Device& device = devices_[number];
  if (unused_.empty()) unused_.emplace_back();
  running_.splice(running_.end(), unused_, unused_.begin());
  Running& running = running_.back();
  running.access = access;
  running.device = number;
  running.began = now_;
  ++device.running;
  device.kernels += access.spread() ? 0 : 1;
  if (!access.spread() && options_.ahead > Time::zero() && now_ >= device.batch_end)
    device.batch_end = now_ + options_.ahead;
  cut(running);
  account_.access_began(now_ - access.came);
  begin_segment(std::prev(running_.end()));
}

/// Finds the parts of the access in each chunk. Returns false if one is unreachable.
bool ReplayDevices::find_pieces(PlaceId self, const Access& access) {
  const ReplayObjects::Object& object = memory_.object(access.object);
  const Snapshot snapshot = scheduler_.snapshot();
  const std::uint64_t end = access.offset + access.bytes;
  pieces_.clear();
  for (std::uint64_t slot = access.offset / object.chunk_bytes; slot < object.chunks; ++slot) {
    const std::uint64_t begin = slot * object.chunk_bytes;
    if (begin >= end) break;
    const ChunkId chunk{static_cast<std::uint32_t>(index(object.first) + slot)};
    const std::uint64_t first = std::max(begin, access.offset);
    const std::uint64_t last = std::min(begin + object.bytes_of(slot), end);
    const PlaceId at = snapshot.chunk(chunk).at;
    if (machine_.links.read(self, at).rate_max <= 0) return false;
    pieces_.push_back({chunk, at, static_cast<double>(last - first) * access.passes});
  }
  return true;
}

/// Splits the access into segments that are at one place each. A `read_write` access reads each
/// segment before it writes it. Reports the use of each chunk.
void ReplayDevices::cut(Running& running) {
  const PlaceId self{static_cast<std::uint8_t>(running.device)};
  const Access& access = running.access;
  const double read = access.use == UseKind::write ? 0 : access.use == UseKind::read ? 1 : 0.5;
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    const PlaceId at = piece->at;
    double bytes = 0;
    for (; piece != pieces_.end() && piece->at == at; ++piece) {
      scheduler_.use(piece->chunk, self, piece->bytes * read, piece->bytes * (1 - read));
      bytes += piece->bytes;
    }
    running.bytes += bytes;
    account_.reached(running.device, at, bytes);
    if (read > 0) running.segments.push_back({&machine_.links.read(self, at), bytes * read});
    if (read < 1) running.segments.push_back({&machine_.links.write(self, at), bytes * (1 - read)});
  }
  const double work = std::chrono::duration<double>(access.duration).count();
  running.rate_max = work > 0 ? running.bytes / work : std::numeric_limits<double>::infinity();
  running.local_s = std::max(work, machine_.costs.access_seconds(self, self, running.bytes));
}

/// Begins the current segment of each.
void ReplayDevices::begin_segments(std::span<const RunningAccess> begun) {
  new_flows_.clear();
  for (const auto& running : begun)
    new_flows_.push_back({running->segments[running->segment].path,
                          running->segments[running->segment].bytes, running->rate_max,
                          running->access.spread()});
  const std::span<const FlowId> flows = traffic_.begin(new_flows_, now_);
  for (std::size_t i = 0; i < begun.size(); ++i) {
    const auto number = static_cast<std::size_t>(flows[i]);
    if (by_flow_.size() <= number) by_flow_.resize(number + 1, running_.end());
    by_flow_[number] = begun[i];
  }
}

void ReplayDevices::begin_segment(RunningAccess running) {
  begin_segments(std::span(&running, 1));
}

void ReplayDevices::end_flow(FlowId flow) {
  const auto ended = by_flow_[static_cast<std::size_t>(flow)];
  Running& running = *ended;
  if (++running.segment < running.segments.size()) return begin_segment(ended);
  const std::size_t number = running.device;
  const bool spread = running.access.spread();
  end_access(running);
  drop(ended);
  if (running_.empty()) account_.note_links(traffic_);
  Device& device = devices_[number];
  if (!moves_.gate_shut() || device.before_gate > 0) return begin_next(number);
  if (device.has_work() && !device.stands) device.stands = now_;
  if (!spread) moves_.arrive(now_);
}

/// Recycles the node, with the memory for its segments.
void ReplayDevices::drop(RunningAccess running) {
  std::vector<Segment> segments = std::move(running->segments);
  segments.clear();
  *running = {};
  running->segments = std::move(segments);
  unused_.splice(unused_.begin(), running_, running);
}

void ReplayDevices::end_access(const Running& running) {
  const Access& access = running.access;
  account_.access_ended({running.device, memory_.object(access.object).tag, running.bytes,
                         running.local_s, running.began},
                        now_);
  Device& device = devices_[running.device];
  --device.running;
  if (!access.spread()) {
    --device.kernels;
    device.ended = now_;
    device.kernel_took = now_ - running.began;
  }
  leave(running.device, access);
}

/// Takes an access off the device's load, and unpins its object.
void ReplayDevices::leave(std::size_t device, const Access& access) {
  DeviceLoad& load = loads_[device];
  --load.waiting;
  load.bytes -= access.all_bytes();
  if (load.waiting == 0) load.bytes = 0;  // Clears rounding errors.
  memory_.unpin(access.object);
}

void ReplayDevices::open() {
  traffic_.resume(now_);
  for (std::size_t device = 0; device < devices_.size(); ++device) {
    if (const auto since = std::exchange(devices_[device].stands, std::nullopt))
      account_.device_stood(device, now_ - *since);
    begin_next(device);
  }
  shut_gate();
}

void ReplayDevices::shut_gate() {
  if (!moves_.wants_gate(now_)) return;
  traffic_.pause(now_);
  std::size_t kernels = 0;
  for (Device& device : devices_) {
    device.before_gate = launched(device);
    const bool runs = device.kernels > 0 || device.before_gate > 0;
    kernels += runs ? 1 : 0;
    if (!runs && device.has_work()) device.stands = now_;
  }
  moves_.close(kernels, now_);
}

}  // namespace vma
