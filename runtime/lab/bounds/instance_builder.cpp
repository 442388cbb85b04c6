#include "lab/bounds/instance_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace vma {
namespace {

/// A stretch does not wait for devices with less than 1 / `patience` of an equal share of accesses.
constexpr std::uint64_t patience = 4;

constexpr std::uint32_t lives_on = UINT32_MAX;
constexpr std::size_t none = SIZE_MAX;
constexpr std::size_t crowd_max = 8;  // Limit of `uses_limit_`, in multiples of `uses_max`.

}  // namespace

TraceBlocks::TraceBlocks(std::size_t devices, std::size_t late_max)
    : late_max_(late_max),
      stretch_max_(std::max<std::uint64_t>(1, patience * late_max * devices)),
      devices_(devices) {}

void TraceBlocks::came(std::size_t number) {
  if (in_stretch_ == 0) begin_stretch();
  Device& device = devices_[number];
  ++device.came;
  ++in_stretch_;
  if (device.awaited && device.came - device.before >= late_max_) {
    device.awaited = false;
    --missing_;
  }
  if (missing_ > 0 && in_stretch_ < stretch_max_) return;
  in_stretch_ = 0;
  ++stretches_;
}

/// A stretch lasts until the accesses of the previous one have begun.
void TraceBlocks::begin_stretch() {
  missing_ = 0;
  for (Device& device : devices_) {
    device.awaited = late_max_ > 0 && device.came > device.before;
    device.before = device.came;
    missing_ += device.awaited ? 1 : 0;
  }
}

InstanceBuilder::InstanceBuilder(const ReplayMachine& machine, const InstanceOptions& options,
                                 std::unique_ptr<Router> router)
    : machine_(machine),
      options_(options),
      router_(std::move(router)),
      uses_limit_(options.uses_max),
      blocks_(machine.costs.gpus(), options.late_max),
      waiting_(machine.costs.gpus()),
      loads_(machine.costs.gpus()),
      costs_(machine.costs.places()) {
  if (machine.places.size() > PlacementInstance::places_max)
    refuse(ErrorKind::unsupported,
           fmt::format("bounds support at most {} places", PlacementInstance::places_max));
  for (const PlaceState& place : machine.places) {
    instance_.places.push_back(place.place);
    instance_.capacities.push_back(place.capacity_bytes);
  }
}

PlacementInstance InstanceBuilder::build(TraceSource& source) {
  source_.emplace(source);
  for (auto events = source_->next(); !events.empty(); events = source_->next()) {
    for (const TraceEvent& event : events) {
      const std::optional<std::string> fault = audit_.add(event);
      if (fault)
        refuse(ErrorKind::invalid_argument, fmt::format("event {}: {}", audit_.events(), *fault));
      take(event);
    }
  }
  if (audit_.events() == 0) refuse(ErrorKind::invalid_argument, "the trace has no events");
  for (std::size_t device = 0; device < waiting_.size(); ++device) {
    for (const Waiting& access : waiting_[device]) begun(device, access);
    waiting_[device].clear();
  }
  instance_.blocks = blocks_.now() + 1;
  let_begin_anywhere();
  instance_.arrange();
  return std::move(instance_);
}

void InstanceBuilder::take(const TraceEvent& event) {
  switch (event.kind) {
    case TraceEventKind::access: return take_access(event);
    case TraceEventKind::place: return place_range(event);
    case TraceEventKind::allocation: {
      Object& object = live_[event.object];
      object = {};
      object.bytes = event.bytes;
      object.born = event.time;
      object.chunk_bytes = event.chunk_bytes > 0 ? event.chunk_bytes : options_.chunk_bytes;
      if (const std::uint64_t bit = place_bit(event.at); bit != 0) add_chunks(object, bit);
      return;
    }
    case TraceEventKind::free: {
      const auto found = live_.find(event.object);
      if (found->second.placed) end_chunks(found->second);
      live_.erase(found);
      router_.forget(event.object);
      return;
    }
    case TraceEventKind::tag:
    case TraceEventKind::hint:
    case TraceEventKind::mark: return;
    case TraceEventKind::task:
    case TraceEventKind::after:
      refuse(ErrorKind::invalid_argument,
             fmt::format("event {}: bounds know open loops only", audit_.events()));
  }
}

/// The place as one bit; 0 if the event names no place, or the machine lacks it.
std::uint64_t InstanceBuilder::place_bit(TracePlace at) const {
  if (!at.is_set()) return 0;
  const auto found = std::ranges::find(instance_.places, at.place());
  if (found == instance_.places.end()) return 0;
  return std::uint64_t{1} << (found - instance_.places.begin());
}

std::size_t InstanceBuilder::route(const TraceEvent& event) {
  const bool named = event.at.is_set() && event.at.is_gpu();
  if (!named && router_.reads_loads()) {
    refuse(ErrorKind::unsupported,
           fmt::format("event {} names no device, and the choices of router '{}' depend on the "
                       "replay; use --router prefix, round_robin or hash",
                       audit_.events(), router_.name()));
  }
  return router_.choose(source_->from(event), loads_);
}

void InstanceBuilder::take_access(const TraceEvent& event) {
  Object& object = live_.at(event.object);
  const std::size_t device = route(event);
  if (!object.placed) add_chunks(object, instance_.all_places());
  object.used = true;
  Waiting access;
  access.object = object;
  access.offset = event.offset;
  access.bytes = event.bytes;
  access.passes = event.use == UseKind::read_write ? 2.0 * event.passes : event.passes;
  access.work_s = std::chrono::duration<double>(event.duration).count();
  access.block = blocks_.now();
  access.event = audit_.events();
  std::deque<Waiting>& waiting = waiting_[device];
  waiting.push_back(access);
  if (waiting.size() > options_.late_max) {
    begun(device, waiting.front());
    waiting.pop_front();
  }
  const std::uint32_t before = blocks_.now();
  blocks_.came(device);
  if (blocks_.now() != before) drop_forgotten();
}

void InstanceBuilder::place_range(const TraceEvent& event) {
  Object& object = live_.at(event.object);
  const std::uint64_t bit = place_bit(event.at);
  if (bit == 0 || !object.placed) return;
  const bool begins = !object.used && event.time == object.born;
  for (std::uint64_t slot = (event.offset + object.chunk_bytes - 1) / object.chunk_bytes;
       slot < object.chunks && slot * object.chunk_bytes - event.offset < event.bytes; ++slot) {
    const auto chunk = static_cast<std::uint32_t>(object.first + slot);
    if (begins) {
      instance_.chunks[chunk].begin_places |= bit;
    } else {
      begin_anew(chunk);
    }
  }
}

InstanceBuilder::Anew InstanceBuilder::now_of(std::uint32_t chunk) const {
  const auto found = anew_.find(chunk);
  return found == anew_.end() ? Anew{chunk, 0} : found->second;
}

/// The trace moves the chunk at no cost, unless the target is full or the chunk is moving. So it is
/// then either where the trace says or where it was before, which is unknown.
void InstanceBuilder::begin_anew(std::uint32_t chunk) {
  require_room_for(1);
  instance_.begins_anew = true;
  PlacementChunk& before = instance_.chunks[now_of(chunk).chunk];
  before.end = blocks_.now();
  PlacementChunk after = before;
  after.begin_places = instance_.all_places();
  after.begin = blocks_.now();
  after.end = lives_on;
  anew_[chunk] = {static_cast<std::uint32_t>(instance_.chunks.size()), audit_.events()};
  add_chunk(after);
}

void InstanceBuilder::add_chunks(Object& object, std::uint64_t begin_places) {
  object.placed = true;
  object.first = static_cast<std::uint32_t>(instance_.chunks.size());
  const std::uint64_t chunks = (object.bytes - 1) / object.chunk_bytes + 1;
  require_room_for(chunks);
  object.chunks = static_cast<std::uint32_t>(chunks);
  for (std::uint32_t slot = 0; slot < object.chunks; ++slot) {
    PlacementChunk chunk;
    chunk.bytes = object.bytes_of(slot);
    chunk.begin_places = begin_places;
    chunk.begin = blocks_.now();
    chunk.end = lives_on;
    const auto [table, fresh] =
        move_tables_.try_emplace(chunk.bytes, static_cast<std::uint32_t>(instance_.moves.size()));
    if (fresh) instance_.moves.emplace_back(machine_.costs, chunk.bytes);
    chunk.moves = table->second;
    add_chunk(chunk);
    bytes_ += static_cast<double>(chunk.bytes);
  }
}

void InstanceBuilder::require_room_for(std::uint64_t chunks) const {
  const std::uint64_t have = instance_.chunks.size();
  if (chunks <= options_.chunks_max - std::min<std::uint64_t>(options_.chunks_max, have)) return;
  refuse(ErrorKind::unsupported, fmt::format("event {}: more than {} chunks; use larger chunks",
                                             audit_.events(), options_.chunks_max));
}

void InstanceBuilder::add_chunk(const PlacementChunk& chunk) {
  instance_.chunks.push_back(chunk);
  last_use_.push_back(none);
}

void InstanceBuilder::end_chunks(const Object& object) {
  for (std::uint32_t slot = 0; slot < object.chunks; ++slot)
    instance_.chunks[now_of(object.first + slot).chunk].end = blocks_.now();
}

/// The access has begun by now: adds its uses.
void InstanceBuilder::begun(std::size_t device, const Waiting& access) {
  const Object& object = access.object;
  const std::uint64_t end = access.offset + access.bytes;
  const double all_bytes = static_cast<double>(access.bytes) * access.passes;
  for (std::uint64_t slot = access.offset / object.chunk_bytes; slot * object.chunk_bytes < end;
       ++slot) {
    const std::uint64_t begin = slot * object.chunk_bytes;
    const std::uint64_t first = std::max(begin, access.offset);
    const std::uint64_t last = std::min(begin + object.chunk_bytes, end);
    const double bytes = static_cast<double>(last - first) * access.passes;
    PlacementUse use;
    const Anew now = now_of(object.first + static_cast<std::uint32_t>(slot));
    use.chunk = now.chunk;
    use.block = access.block;
    use.device = static_cast<std::uint8_t>(device);
    use.late = access.block != blocks_.now();
    // The access may have begun before or after the trace moved the chunk.
    add_use(use, bytes, access.work_s * bytes / all_bytes, access.event < now.event);
  }
}

/// Adds the use's cost at its best place to the floor, and the excess at the other places to its
/// row. If the use may have begun in any of several blocks, only the floor counts.
void InstanceBuilder::add_use(const PlacementUse& use, double bytes, double work_s,
                              bool floor_only) {
  for (std::size_t place = 0; place < costs_.size(); ++place) {
    const PlaceId self{use.device}, at{static_cast<std::uint8_t>(place)};
    costs_[place] = std::max(work_s, machine_.costs.access_seconds(self, at, bytes));
  }
  const double best = std::ranges::min(costs_);
  instance_.floor_s += best;
  const bool forgotten = use.block + 1 < blocks_.now();
  if (floor_only || forgotten || std::ranges::max(costs_) <= best) return;
  for (double& cost : costs_) cost -= best;
  std::size_t& last = last_use_[use.chunk];
  if (last != none && instance_.uses[last] == use) {  // The common case: chunks stay hot.
    for (std::size_t place = 0; place < costs_.size(); ++place)
      instance_.excess[last * costs_.size() + place] += costs_[place];
    return;
  }
  last = instance_.uses.size();
  instance_.uses.push_back(use);
  instance_.excess.insert(instance_.excess.end(), costs_.begin(), costs_.end());
  if (instance_.uses.size() >= uses_limit_) thin_out();
}

/// Merges equal uses, and makes blocks longer until few enough uses remain.
void InstanceBuilder::thin_out() {
  arrange();
  while (instance_.uses.size() > options_.uses_max / 2 && blocks_.now() > 0) halve();
  uses_limit_ = std::max(options_.uses_max, 2 * instance_.uses.size());
  if (uses_limit_ > crowd_max * options_.uses_max) {
    refuse(ErrorKind::unsupported,
           fmt::format("event {}: devices use more than {} chunks at a time; use larger chunks",
                       audit_.events(), crowd_max * options_.uses_max / 2));
  }
}

/// Ends the wait of accesses at devices that blocks did not wait for; only their floor counts.
void InstanceBuilder::drop_forgotten() {
  for (std::size_t device = 0; device < waiting_.size(); ++device) {
    std::erase_if(waiting_[device], [&](const Waiting& access) {
      if (access.block + 1 >= blocks_.now()) return false;
      begun(device, access);
      return true;
    });
  }
}

void InstanceBuilder::halve() {
  blocks_.halve();
  for (PlacementUse& use : instance_.uses) {
    use.late = use.late && use.block % 2 == 1;
    use.block /= 2;
  }
  for (PlacementChunk& chunk : instance_.chunks) {
    chunk.begin /= 2;
    if (chunk.end != lives_on) chunk.end /= 2;
  }
  for (auto& waiting : waiting_)
    for (Waiting& access : waiting) access.block /= 2;
  arrange();
}

void InstanceBuilder::arrange() {
  instance_.arrange();
  std::ranges::fill(last_use_, none);
}

/// A chunk may begin anywhere if the place that the trace names may have been full.
void InstanceBuilder::let_begin_anywhere() {
  for (PlacementChunk& chunk : instance_.chunks) {
    for (std::size_t place = 0; place < instance_.capacities.size(); ++place) {
      const bool may = (chunk.begin_places >> place & 1) != 0;
      if (may && static_cast<double>(instance_.capacities[place]) < bytes_)
        chunk.begin_places = instance_.all_places();
    }
  }
}

void InstanceBuilder::refuse(ErrorKind kind, const std::string& why) {
  throw Error(kind, "bounds", why);
}

}  // namespace vma
