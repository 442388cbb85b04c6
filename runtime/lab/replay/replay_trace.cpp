// How a replay takes in its trace: what waits for its time, for room at a device, for room in
// memory.

#include "lab/replay/replay.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vma {
namespace {

constexpr std::uint64_t chunks_max = std::uint64_t{1} << 20;  // Of an object.
constexpr double access_bytes_max = 1e18;
constexpr std::chrono::hours span_max(366 * 24);  // Of a trace.

[[noreturn]] void refuse(const TraceEvent& event, std::uint64_t number, const char* why) {
  throw Error(ErrorKind::invalid_argument, "Replay::run",
              fmt::format("event {}: {} of object {}, {}", number, to_string(event.kind),
                          event.object, why));
}

}  // namespace

/// False after the last event.
bool Replay::read_head() {
  if (head_ < batch_.size()) return true;
  if (!more_) return false;
  batch_ = source_->next();
  head_ = 0;
  more_ = !batch_.empty();
  return more_;
}

void Replay::admit() {
  while (read_head()) {
    const TraceEvent& event = batch_[head_];
    if (event.time - report_.begin > span_max)
      refuse(event, report_.events + 1, "more than a year after the first event");
    if (options_.pacing == Pacing::timed && event.time > now_) return;
    if (!take(event)) return;
    ++report_.events;
    ++head_;
  }
}

/// When the trace can go on by itself.
Time Replay::next_admission() const {
  if (!more_ || head_ >= batch_.size()) return Time::max();
  if (wanted_) return room_until_;
  const Time time = batch_[head_].time;
  return options_.pacing == Pacing::timed && time > now_ ? time : Time::max();
}

bool Replay::take(const TraceEvent& event) {
  switch (event.kind) {
    case TraceEventKind::access: return take_access(event);
    case TraceEventKind::allocation: return allocate(event);
    case TraceEventKind::free: free_object(event); return true;
    case TraceEventKind::place: return place_range(event);
    case TraceEventKind::tag:
      if (const auto index = objects_.find(event.object); index != ReplayObjects::none)
        objects_.at(index).tag = event.tag;
      return true;
    case TraceEventKind::mark:
      report_.marks.emplace_back(now_, std::string(source_->tags().text(event.tag)));
      return true;
  }
  return true;
}

bool Replay::take_access(const TraceEvent& event) {
  const std::uint64_t count = report_.events + 1;
  const ReplayObjects::Index index = objects_.find(event.object);
  if (index == ReplayObjects::none) refuse(event, count, "which does not exist");
  ReplayObjects::Object& object = objects_.at(index);
  if (event.offset + event.bytes > object.bytes) refuse(event, count, "past its end");
  Access access;
  access.object = index;
  access.offset = event.offset;
  access.bytes = event.bytes;
  access.passes = event.use == UseKind::read_write ? 2.0 * event.passes : event.passes;
  access.duration = event.duration;
  access.came = now_;
  access.use = event.use;
  const double bytes = static_cast<double>(access.bytes) * access.passes;
  if (bytes > access_bytes_max) refuse(event, count, "of more than 10^18 bytes");
  if (event.duration > span_max) refuse(event, count, "which takes more than a year");
  if (!head_device_) head_device_ = router_.choose(event, loads_);
  const std::size_t number = *head_device_;
  if (devices_[number].queue.size() >= options_.queue_max) return false;
  const PlaceId self{static_cast<std::uint8_t>(number)};
  if (!object.placed && !give_chunks(event, index, self)) return false;
  head_device_.reset();
  access.first_of_round = begins_round(event, number, bytes);
  if (object.chunks == 0) {
    ++report_.accesses_lost;
    return true;
  }
  ++object.pins;
  ++loads_[number].waiting;
  loads_[number].bytes += bytes;
  devices_[number].queue.push_back(access);
  // For the processor: by when it begins, others have been looked at.
  __builtin_prefetch(&scheduler_.snapshot().chunk(object.first));
  begin_next(number);
  return true;
}

/// What the trace places gets its chunks now; anything else by its first access, as first touch.
bool Replay::allocate(const TraceEvent& event) {
  const std::uint64_t number = report_.events + 1;
  ReplayObjects::Index index = objects_.find(event.object);
  if (index != ReplayObjects::none && !wanted_) refuse(event, number, "which already exists");
  if (index == ReplayObjects::none) {
    ReplayObjects::Object object;
    object.number = event.object;
    object.bytes = event.bytes;
    object.chunk_bytes = event.chunk_bytes > 0 ? event.chunk_bytes : options_.chunk_bytes;
    const std::uint64_t chunks = (event.bytes - 1) / object.chunk_bytes + 1;
    if (chunks > chunks_max) refuse(event, number, "in more than a million chunks");
    object.chunks = static_cast<std::uint32_t>(chunks);
    object.tag = event.tag;
    index = objects_.add(object);
  }
  const std::optional<PlaceId> at = place_of(event.at);
  return !at || give_chunks(event, index, *at);
}

/// At the place that an allocation names; else where the policy wants them for the device of the
/// first access. False: they wait for room.
bool Replay::give_chunks(const TraceEvent& event, ReplayObjects::Index index, PlaceId place) {
  ReplayObjects::Object& object = objects_.at(index);
  if (!wanted_) {
    wanted_sizes_.clear();
    for (std::uint32_t slot = 0; slot < object.chunks; ++slot)
      wanted_sizes_.push_back(object.bytes_of(slot));
    if (event.kind == TraceEventKind::allocation) {
      wanted_ = std::vector(wanted_sizes_.size(), place);
    } else {
      const AllocRequest request{object.bytes, object.chunk_bytes, place,
                                 source_->tags().text(object.tag)};
      wanted_ = scheduler_.place(request, wanted_sizes_);
    }
    room_changed_ = true;
  }
  if (!room_changed_ && now_ < room_until_) return false;
  room_changed_ = false;
  if (!find_room(wanted_sizes_)) return false;
  const std::vector<PlaceId> places = *std::exchange(wanted_, std::nullopt);
  room_until_ = Time::max();
  object.placed = true;
  if (places.empty()) {
    ++report_.allocations_lost;
    object.chunks = 0;
    return true;
  }
  std::vector<ChunkTables::NewChunk> chunks;
  for (std::size_t slot = 0; slot < wanted_sizes_.size(); ++slot)
    chunks.push_back({wanted_sizes_[slot], places[slot]});
  object.first = scheduler_.tables().add(allocations_++, source_->tags().text(object.tag), chunks);
  for (std::uint32_t slot = 0; slot < object.chunks; ++slot)
    objects_.belongs(ChunkId{static_cast<std::uint32_t>(object.first) + slot}, index);
  return true;
}

/// False: there will be room, or time for it is not over. Otherwise all fits where `wanted_` says;
/// it is empty if it fits nowhere.
bool Replay::find_room(std::span<const std::uint64_t> sizes) {
  std::vector<std::uint64_t> needed(machine_.places.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) needed[index((*wanted_)[i])] += sizes[i];
  const Snapshot snapshot = scheduler_.snapshot();
  bool fits = true;
  for (std::size_t place = 0; place < needed.size(); ++place) {
    const PlaceId at{static_cast<std::uint8_t>(place)};
    const std::uint64_t free_bytes = snapshot.place(at).free_bytes();
    if (needed[place] <= free_bytes) continue;
    fits = false;
    // Asked once, then it waits for what is under way.
    if (room_until_ != Time::max()) continue;
    scheduler_.press({at, needed[place] - free_bytes, at});
    start_moves();
  }
  if (fits) return true;
  if (room_until_ == Time::max()) room_until_ = now_ + options_.room_limit;
  if (now_ < room_until_ && moves_.size() > 0) return false;
  spill(sizes);
  return true;
}

/// What does not fit goes to the fastest place, seen from where it should be, that has room.
void Replay::spill(std::span<const std::uint64_t> sizes) {
  std::vector<std::uint64_t> free_bytes;
  for (const PlaceState& place : scheduler_.snapshot().places())
    free_bytes.push_back(place.free_bytes());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    PlaceId& place = (*wanted_)[i];
    const PlaceId user = index(place) < machine_.costs.gpus() ? place : PlaceId{0};
    if (free_bytes[index(place)] < sizes[i]) {
      const auto order = machine_.costs.by_speed(user);
      const auto found = std::ranges::find_if(
          order, [&](PlaceId at) { return free_bytes[index(at)] >= sizes[i]; });
      if (found == order.end()) {
        wanted_->clear();
        return;
      }
      place = *found;
      ++report_.chunks_spilled;
    }
    free_bytes[index(place)] -= sizes[i];
  }
}

/// Chunks that begin in the range lie there, as if they had from the beginning; those for which
/// there is no such place or no room stay, and those that move. Where only the order of the trace
/// counts, it waits for the accesses before it.
bool Replay::place_range(const TraceEvent& event) {
  const ReplayObjects::Index number = objects_.find(event.object);
  if (number == ReplayObjects::none) refuse(event, report_.events + 1, "which does not exist");
  const std::optional<PlaceId> at = place_of(event.at);
  const ReplayObjects::Object& object = objects_.at(number);
  if (!at || object.chunks == 0 || !object.placed) return true;
  if (options_.pacing == Pacing::at_once && object.pins > 0) return false;
  for (std::uint64_t slot = (event.offset + object.chunk_bytes - 1) / object.chunk_bytes;
       slot < object.chunks && slot * object.chunk_bytes - event.offset < event.bytes; ++slot) {
    const ChunkId chunk{static_cast<std::uint32_t>(index(object.first) + slot)};
    const ChunkRow& row = scheduler_.snapshot().chunk(chunk);
    if (row.at == *at || scheduler_.is_moving(chunk)) continue;
    if (scheduler_.snapshot().place(*at).free_bytes() < row.bytes) {
      ++report_.chunks_spilled;
      continue;
    }
    scheduler_.tables().moved(chunk, *at);
    ChunkRow& moved = scheduler_.tables().row(chunk);
    moved.last_move = Time::zero();
    moved.generation = 0;
  }
  return true;
}

std::optional<PlaceId> Replay::place_of(TracePlace at) const {
  if (!at.is_set()) return std::nullopt;
  const auto found = std::ranges::find(machine_.places, at.location(), &PlaceState::location);
  if (found == machine_.places.end()) return std::nullopt;
  return PlaceId{static_cast<std::uint8_t>(found - machine_.places.begin())};
}

void Replay::free_object(const TraceEvent& event) {
  const ReplayObjects::Index index = objects_.find(event.object);
  if (index == ReplayObjects::none) refuse(event, report_.events + 1, "which does not exist");
  objects_.free(index);
  router_.forget(event.object);
  ++objects_.at(index).pins;
  unpin(index);
}

void Replay::unpin(ReplayObjects::Index index) {
  ReplayObjects::Object& object = objects_.at(index);
  if (--object.pins > 0 || !object.freed) return;
  room_changed_ = true;
  if (object.placed && object.chunks > 0) {
    scheduler_.remove(object.first, object.chunks);
    for (std::uint32_t slot = 0; slot < object.chunks; ++slot)
      came_from_.erase(ChunkId{static_cast<std::uint32_t>(object.first) + slot});
  }
  objects_.remove(index);
}

}  // namespace vma
