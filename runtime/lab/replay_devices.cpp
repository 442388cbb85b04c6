// What the devices of a replay do: one access after the other, cut where the memory lies elsewhere.

#include "lab/replay.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace vma {
void Replay::begin_next(std::size_t number) {
  Device& device = devices_[number];
  while (!device.running && !device.queue.empty()) {
    if (moves_.gate_shut()) {
      if (!device.stands) device.stands = now_;
      return;
    }
    device.running = device.queue.front();
    device.queue.pop_front();
    device.began = now_;
    device.segment = 0;
    cut(number, device);
    if (device.segments.empty()) {
      ++report_.accesses_lost;
      end_access(number);
      continue;
    }
    report_.wait_s += std::chrono::duration<double>(now_ - device.running->came).count();
    begin_segment(device);
  }
}

/// Into stretches that lie at one place. Without any: a chunk cannot be reached. Each chunk is
/// reported as used.
void Replay::cut(std::size_t number, Device& device) {
  const PlaceId self{static_cast<std::uint8_t>(number)};
  const Access& access = *device.running;
  const ReplayObjects::Object& object = objects_.at(access.object);
  const Snapshot snapshot = scheduler_.snapshot();
  device.segments.clear();
  const std::uint64_t end = access.offset + access.bytes;
  double all = 0;
  for (std::uint64_t slot = access.offset / object.chunk_bytes; slot < object.chunks; ++slot) {
    const std::uint64_t begin = slot * object.chunk_bytes;
    if (begin >= end) break;
    const ChunkId chunk{static_cast<std::uint32_t>(index(object.first) + slot)};
    const std::uint64_t first = std::max(begin, access.offset);
    const std::uint64_t last = std::min(begin + object.bytes_of(slot), end);
    const double bytes = static_cast<double>(last - first) * access.passes;
    const PlaceId at = snapshot.chunk(chunk).at;
    const LinkPath& path = machine_.links.access(self, at);
    if (path.rate_max <= 0) {
      device.segments.clear();
      return;
    }
    const double read = access.use == UseKind::write ? 0 : 1;
    const double written = access.use == UseKind::read ? 0 : 1;
    scheduler_.use(chunk, self, bytes * read / (read + written),
                   bytes * written / (read + written));
    all += bytes;
    place_bytes_[index(at)] += bytes;
    if (!device.segments.empty() && device.segments.back().at == at) {
      device.segments.back().bytes += bytes;
    } else {
      device.segments.push_back({&path, at, bytes});
    }
  }
  const double work = std::chrono::duration<double>(access.duration).count();
  device.rate_max = work > 0 ? all / work : std::numeric_limits<double>::infinity();
  device.bytes = all;
  device.local_s = std::max(work, machine_.costs.access_seconds(self, self, all));
}

void Replay::begin_segment(Device& device) {
  const Segment& segment = device.segments[device.segment];
  device.flow = traffic_.begin(*segment.path, segment.bytes, now_, device.rate_max);
}

/// The next flow that ends has ended: of a device or of a move.
void Replay::end_flow() {
  const FlowId flow = traffic_.next();
  traffic_.end(flow, now_);
  if (moves_.take_end(flow, now_)) {
    if (!moves_.gate_shut()) shut_gate();
    return;
  }
  const auto found = std::ranges::find_if(
      devices_, [&](const Device& device) { return device.running && device.flow == flow; });
  Device& device = *found;
  if (++device.segment < device.segments.size()) {
    begin_segment(device);
    return;
  }
  const auto number = static_cast<std::size_t>(found - devices_.begin());
  note(device, number);
  end_access(number);
  if (moves_.gate_shut()) {
    if (!device.queue.empty()) device.stands = now_;
    moves_.arrive(now_);
    return;
  }
  begin_next(number);
}

void Replay::end_access(std::size_t number) {
  Device& device = devices_[number];
  const Access access = *std::exchange(device.running, std::nullopt);
  DeviceLoad& load = loads_[number];
  --load.waiting;
  load.bytes -= static_cast<double>(access.bytes) * access.passes;
  if (load.waiting == 0) load.bytes = 0;  // Sums of what is not whole leave crumbs.
  unpin(access.object);
}

void Replay::note(const Device& device, std::size_t number) {
  const double seconds = std::chrono::duration<double>(now_ - device.began).count();
  report_.end = now_;
  ++report_.accesses;
  report_.bytes += device.bytes;
  report_.access_s += seconds;
  report_.local_s += device.local_s;
  ReplayWindow& stretch = window();
  stretch.bytes += device.bytes;
  stretch.access_s += seconds;
  stretch.local_s += device.local_s;
  ReplayTenant& tenant = tenant_of(objects_.at(device.running->object).tag);
  ++tenant.accesses;
  tenant.bytes += device.bytes;
  tenant.access_s += seconds;
  tenant.local_s += device.local_s;
  ReplayDevice& own = report_.devices[number];
  ++own.accesses;
  own.bytes += device.bytes;
  own.busy += now_ - device.began;
}

ReplayTenant& Replay::tenant_of(TagId tag) {
  const auto number = static_cast<std::size_t>(tag);
  if (tenants_.size() <= number) tenants_.resize(number + 1, nullptr);
  if (tenants_[number] == nullptr)
    tenants_[number] = &report_.tenants[std::string(source_->tags().text(tag))];
  return *tenants_[number];
}

}  // namespace vma
