#include "lab/replay/replay_memory.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cstddef>
#include <ranges>
#include <string>
#include <utility>

namespace vma {
namespace {

constexpr std::uint64_t chunks_max = std::uint64_t{1} << 20;  // Per object.

}  // namespace

ReplayObjects::Index ReplayObjects::add(const Object& object) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<Index>(objects_.size()));
    objects_.emplace_back();
  }
  const Index index = unused_.back();
  unused_.pop_back();
  objects_[index] = object;
  live_[object.number] = index;
  return index;
}

ReplayObjects::Index ReplayObjects::find(std::uint64_t number) const {
  const auto found = live_.find(number);
  return found == live_.end() ? none : found->second;
}

void ReplayObjects::free(Index index) {
  Object& object = objects_[index];
  VMART_CHECK(!object.freed, "an object is freed once");
  object.freed = true;
  live_.erase(object.number);
}

void ReplayObjects::remove(Index index) {
  VMART_CHECK(objects_[index].freed && objects_[index].pins == 0, "nothing uses it anymore");
  objects_[index] = {};
  unused_.push_back(index);
}

void ReplayObjects::belongs(ChunkId chunk, Index object) {
  if (owners_.size() <= vma::index(chunk)) owners_.resize(vma::index(chunk) + 1, none);
  owners_[vma::index(chunk)] = object;
}

ReplayMemory::ReplayMemory(const ReplayMachine& machine, const ReplayOptions& options,
                           ReplayScheduler& scheduler, ReplayMoves& moves, ReplayAccount& account,
                           const Time& now)
    : machine_(machine),
      options_(options),
      scheduler_(scheduler),
      moves_(moves),
      account_(account),
      now_(now) {}

ReplayMemory::Index ReplayMemory::require(const TraceEvent& event) const {
  const Index index = objects_.find(event.object);
  if (index == ReplayObjects::none) account_.refuse(event, "which does not exist");
  return index;
}

void ReplayMemory::set_tag(const TraceEvent& event) {
  if (const Index index = objects_.find(event.object); index != ReplayObjects::none)
    objects_.at(index).tag = event.tag;
}

bool ReplayMemory::hint(const TraceEvent& event, PlaceId device) {
  const Index index = objects_.find(event.object);
  if (index == ReplayObjects::none) return false;
  const ReplayObjects::Object& object = objects_.at(index);
  if (!object.placed || object.chunks == 0 || object.vacates) return false;
  const Hint hint = hint_of(event, machine_.places[vma::index(device)].place);
  const std::uint64_t end = std::min(event.offset + event.bytes, object.bytes);
  for (std::uint64_t slot = event.offset / object.chunk_bytes; slot * object.chunk_bytes < end;
       ++slot) {
    const auto chunk = static_cast<std::uint32_t>(object.first) + static_cast<std::uint32_t>(slot);
    scheduler_.hint(ChunkId{chunk}, device, hint);
  }
  return true;
}

/// Chunks get their place now if the trace names it; otherwise at the first access (first touch).
bool ReplayMemory::allocate(const TraceEvent& event) {
  Index index = objects_.find(event.object);
  if (index != ReplayObjects::none && !objects_.at(index).pending)
    account_.refuse(event, "which already exists");
  if (index == ReplayObjects::none) {
    ReplayObjects::Object object;
    object.number = event.object;
    object.bytes = event.bytes;
    object.chunk_bytes = event.chunk_bytes > 0 ? event.chunk_bytes : options_.chunk_bytes;
    const std::uint64_t chunks = (event.bytes - 1) / object.chunk_bytes + 1;
    if (chunks > chunks_max) account_.refuse(event, "in more than a million chunks");
    object.chunks = static_cast<std::uint32_t>(chunks);
    object.tag = event.tag;
    object.made = event.time;
    index = objects_.add(object);
  }
  const std::optional<PlaceId> at = place_of(event.at);
  if (at) scheduler_.want_uses();
  objects_.at(index).pending = at && !give_chunks(index, at, *at);
  return !objects_.at(index).pending;
}

bool ReplayMemory::place_at_first_touch(Index object, PlaceId device) {
  return !objects_.at(object).pending && give_chunks(object, std::nullopt, device);
}

/// Places the chunks at the place that the allocation names, or else where the policy wants them
/// for the device of the first access. Returns false if they wait for room.
bool ReplayMemory::give_chunks(Index index, std::optional<PlaceId> named, PlaceId device) {
  ReplayObjects::Object& object = objects_.at(index);
  if (wanted_ && wanted_for_ != index) return false;
  if (!wanted_) {
    wanted_for_ = index;
    wanted_sizes_.clear();
    for (std::uint32_t slot = 0; slot < object.chunks; ++slot)
      wanted_sizes_.push_back(object.bytes_of(slot));
    if (named) {
      wanted_ = std::vector(wanted_sizes_.size(), *named);
    } else {
      const AllocRequest request{object.bytes, object.chunk_bytes, device, tags_->text(object.tag)};
      wanted_ = scheduler_.place(request, wanted_sizes_);
    }
    if (const auto parts = named_parts_.find(index); parts != named_parts_.end()) {
      for (const auto& [slot, at] : parts->second) (*wanted_)[slot] = at;
      named_parts_.erase(parts);
    }
    room_changed_ = true;
  }
  if (!room_changed_ && now_ < room_until_) return false;
  room_changed_ = false;
  if (!find_room()) return false;
  const std::vector<PlaceId> places = *std::exchange(wanted_, std::nullopt);
  room_until_ = Time::max();
  object.placed = true;
  if (places.empty()) {
    account_.allocation_lost();
    object.chunks = 0;
    return true;
  }
  std::vector<ChunkTables::NewChunk> chunks;
  for (std::size_t slot = 0; slot < wanted_sizes_.size(); ++slot)
    chunks.push_back({wanted_sizes_[slot], places[slot]});
  object.first = scheduler_.tables().add(allocations_++, tags_->text(object.tag), chunks);
  for (std::uint32_t slot = 0; slot < object.chunks; ++slot)
    objects_.belongs(ChunkId{static_cast<std::uint32_t>(object.first) + slot}, index);
  return true;
}

/// Returns false to wait: moves are in progress, and the time limit has not passed. Otherwise
/// everything fits at the places in `wanted_`, which is empty if no place has room.
bool ReplayMemory::find_room() {
  std::vector<std::uint64_t> needed(machine_.places.size());
  for (std::size_t i = 0; i < wanted_sizes_.size(); ++i)
    needed[index((*wanted_)[i])] += wanted_sizes_[i];
  const Snapshot snapshot = scheduler_.snapshot();
  bool fits = true;
  for (std::size_t place = 0; place < needed.size(); ++place) {
    const PlaceId at{static_cast<std::uint8_t>(place)};
    const std::uint64_t free_bytes = snapshot.place(at).free_bytes();
    if (needed[place] <= free_bytes) continue;
    fits = false;
    // Asks the scheduler once, then waits for the moves in progress.
    if (room_until_ != Time::max()) continue;
    scheduler_.press({at, needed[place] - free_bytes, at, true});
    start_moves();
  }
  if (fits) return true;
  if (room_until_ == Time::max()) room_until_ = now_ + options_.room_limit;
  if (now_ < room_until_ && moves_.size() > 0) return false;
  spill();
  return true;
}

/// Sends chunks that do not fit to the fastest place with room, as seen from the intended place.
void ReplayMemory::spill() {
  std::vector<std::uint64_t> free_bytes;
  for (const PlaceState& place : scheduler_.snapshot().places())
    free_bytes.push_back(place.free_bytes());
  for (std::size_t i = 0; i < wanted_sizes_.size(); ++i) {
    PlaceId& place = (*wanted_)[i];
    const PlaceId user = index(place) < machine_.costs.gpus() ? place : PlaceId{0};
    if (free_bytes[index(place)] < wanted_sizes_[i]) {
      const auto order = machine_.costs.by_speed(user);
      const auto found = std::ranges::find_if(
          order, [&](PlaceId at) { return free_bytes[index(at)] >= wanted_sizes_[i]; });
      if (found == order.end()) {
        wanted_->clear();
        return;
      }
      place = *found;
      account_.chunk_spilled();
    }
    free_bytes[index(place)] -= wanted_sizes_[i];
  }
}

/// Places chunks that begin in the range: at the time of their allocation as if they had always
/// been there, later as moved by the program, which policies leave alone for a while. Of an object
/// without a place yet, they get theirs with its first access. Chunks that are moving stay, as do
/// all chunks if the machine has no such place or it has no room. With `Pacing::at_once` the event
/// waits for earlier accesses to the object.
bool ReplayMemory::place(const TraceEvent& event) {
  const std::optional<PlaceId> at = place_of(event.at);
  const Index number = require(event);
  const ReplayObjects::Object& object = objects_.at(number);
  if (!at || object.chunks == 0) return true;
  scheduler_.want_uses();
  if (options_.pacing == Pacing::at_once && object.pins > 0) return false;
  for (std::uint64_t slot = (event.offset + object.chunk_bytes - 1) / object.chunk_bytes;
       slot < object.chunks && slot * object.chunk_bytes - event.offset < event.bytes; ++slot) {
    if (!object.placed) {
      named_parts_[number][slot] = *at;
      continue;
    }
    const ChunkId chunk{static_cast<std::uint32_t>(index(object.first) + slot)};
    const ChunkRow& row = scheduler_.snapshot().chunk(chunk);
    if (row.at == *at || scheduler_.is_moving(chunk)) continue;
    if (scheduler_.snapshot().place(*at).free_bytes() < row.bytes) {
      account_.chunk_spilled();
      continue;
    }
    scheduler_.tables().moved(chunk, *at);
    if (event.time > object.made) continue;
    ChunkRow& moved = scheduler_.tables().row(chunk);
    moved.last_move = Time::zero();
    moved.generation = 0;
  }
  return true;
}

/// A number that the machine lacks is taken modulo that of its places of the kind, as those of
/// devices are.
std::optional<PlaceId> ReplayMemory::place_of(TracePlace at) const {
  if (!at.is_set()) return std::nullopt;
  const std::vector<PlaceState>& places = machine_.places;
  const auto number = [&](auto found) {
    return PlaceId{static_cast<std::uint8_t>(found - places.begin())};
  };
  const auto same = std::ranges::find(places, at.place(), &PlaceState::place);
  if (same != places.end()) return number(same);
  const auto is_alike = [&](const PlaceState& state) {
    return state.place.kind == at.place().kind;
  };
  auto alike = places | std::views::filter(is_alike);
  const auto count = std::ranges::distance(alike);
  if (count == 0) return std::nullopt;
  return number(std::ranges::next(alike.begin(), at.place().ordinal % count).base());
}

bool ReplayMemory::free(const TraceEvent& event) {
  const Index index = require(event);
  if (objects_.at(index).pending || (wanted_ && wanted_for_ == index)) return false;
  named_parts_.erase(index);
  objects_.free(index);
  pin(index);
  unpin(index);
  return true;
}

void ReplayMemory::unpin(Index index) {
  ReplayObjects::Object& object = objects_.at(index);
  if (--object.pins > 0 || !(object.freed || object.vacates)) return;
  make_room();
  if (object.placed && object.chunks > 0) remove_chunks(object);
  if (std::exchange(object.vacates, false)) --vacating_;
  object.placed = false;
  if (object.freed) objects_.remove(index);
}

void ReplayMemory::remove_chunks(const ReplayObjects::Object& object) {
  scheduler_.remove(object.first, object.chunks);
  for (std::uint32_t slot = 0; slot < object.chunks; ++slot)
    account_.chunk_removed(ChunkId{static_cast<std::uint32_t>(object.first) + slot});
}

void ReplayMemory::make_room() {
  room_changed_ = true;
  ++changes_;
}

void ReplayMemory::used_by(std::uint64_t object, std::uint64_t request, bool writes) {
  ReplayObjects::Object& used = objects_.at(objects_.find(object));
  if (used.request == 0 && writes) used.request = request;
  if (used.request != request) used.shared = true;
}

bool ReplayMemory::held_by(std::uint64_t object, std::uint64_t request) const {
  const Index index = objects_.find(object);
  if (index == ReplayObjects::none) return false;
  const ReplayObjects::Object& held = objects_.at(index);
  return held.placed && held.chunks > 0 && held.request == request && !held.shared;
}

void ReplayMemory::vacate(std::uint64_t object) {
  const Index index = objects_.find(object);
  if (!std::exchange(objects_.at(index).vacates, true)) ++vacating_;
  pin(index);
  unpin(index);
}

bool ReplayMemory::has_first_touch(std::span<const TraceEvent> accesses) const {
  return std::ranges::any_of(accesses, [&](const TraceEvent& access) {
    const Index index = objects_.find(access.object);
    return index != ReplayObjects::none && !objects_.at(index).placed;
  });
}

/// Fills the places that the device reaches in order of their speed: where a policy would put the
/// chunks does not matter as long as there is room somewhere.
bool ReplayMemory::fits(std::span<const std::uint64_t> objects, PlaceId device,
                        AdmissionMemory memory) const {
  std::vector<std::uint64_t> free_bytes;
  for (const PlaceState& place : scheduler_.snapshot().places())
    free_bytes.push_back(place.free_bytes());
  std::span<const PlaceId> order = machine_.costs.by_speed(device);
  if (memory == AdmissionMemory::hbm) order = {&device, 1};
  for (const std::uint64_t number : objects) {
    const Index index = objects_.find(number);
    if (index == ReplayObjects::none) continue;
    const ReplayObjects::Object& object = objects_.at(index);
    if (object.vacates) return false;  // Its memory is still in use.
    if (object.placed) continue;
    for (std::uint32_t slot = 0; slot < object.chunks; ++slot) {
      const std::uint64_t bytes = object.bytes_of(slot);
      const auto found = std::ranges::find_if(
          order, [&](PlaceId at) { return free_bytes[vma::index(at)] >= bytes; });
      if (found == order.end()) return false;
      free_bytes[vma::index(*found)] -= bytes;
    }
  }
  return true;
}

void ReplayMemory::start_moves() {
  moves_.allow_ahead(scheduler_.stall_credit());
  for (AcceptedMove& move : scheduler_.take_ready()) {
    pin(objects_.owner(move.chunk));
    moves_.start(std::move(move), now_);
  }
}

ReplayMemory::Index ReplayMemory::end_move(const ReplayMoves::Ended& ended, Time stall) {
  const Index object = objects_.owner(ended.move.chunk);
  scheduler_.end(ended.move, true, now_ - ended.began, stall);
  account_.move_ended(ended, now_);
  unpin(object);  // The freed object may have waited only for this.
  make_room();
  return object;
}

}  // namespace vma
