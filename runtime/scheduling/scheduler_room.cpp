// Where new memory goes, room where there is none, and why a chunk lies where it does.
#include "scheduling/scheduler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vma {
namespace {

/// Between two looks of somebody who waits for moves that others must start or end.
constexpr std::chrono::milliseconds look_period(2);

}  // namespace

std::vector<Location> Scheduler::place(const Geometry& geometry, Location device,
                                       const std::string& tag) {
  const MutexLock lock(mutex_);
  catch_up();
  const PlaceId user = roster_.place_of(device);
  // Whoever could reach it on `device` can reach it wherever else it goes.
  const Reach& reach = ground_.mover.reach();
  const std::vector<DeviceId> users = reach.users(device);
  const ChunkRoster* roster = &roster_;  // The lock is held in the lambda too.
  const auto reached = [&, roster](PlaceId at) {
    return reach.all_reach(users, roster->location_of(at));
  };
  std::vector<std::uint64_t> chunks;
  for (std::size_t slot = 0; slot < geometry.slots; ++slot)
    chunks.push_back(geometry.slot_bytes(slot));
  const std::vector<PlaceId> otherwise = path_.first_places(user, chunks, reached);
  const auto chosen = std::make_shared<std::vector<PlaceId>>(otherwise);
  AllocRequest request{geometry.size_bytes(), geometry.chunk_bytes, user, {}};
  Plan ignored;
  const bool decided = ask(
      PolicyEntry::alloc,
      [chosen, request, tag](Policy& policy, const Snapshot& snapshot, Plan&) mutable {
        request.tag = tag;
        policy.on_alloc(request, snapshot, *chosen);
      },
      ignored);
  // One that overran may still write to its own list.
  const std::vector<PlaceId>& places = decided ? *chosen : otherwise;
  std::vector<Location> homes;
  for (std::size_t slot = 0; slot < geometry.slots; ++slot) {
    const bool known = index(places[slot]) < path_.books().costs().places();
    const bool good = known && reached(places[slot]);
    homes.push_back(roster_.location_of(good ? places[slot] : otherwise[slot]));
  }
  return homes;
}

bool Scheduler::make_room(Location at, std::uint64_t bytes, TimePoint until) {
  MutexLock lock(mutex_);
  const PlaceId place = roster_.place_of(at);
  catch_up();
  const std::uint64_t before = used_bytes(place);
  const Pressure pressure{place, bytes, place};
  Plan plan;
  ask(
      PolicyEntry::pressure,
      [pressure](Policy& policy, const Snapshot& snapshot, Plan& wishes) {
        policy.on_pressure(pressure, snapshot, wishes);
      },
      plan);
  path_.complete_pressure(pressure, plan);
  carry_out(plan, true);
  start_ready();
  while (used_bytes(place) + bytes > before && (!running_.empty() || path_.has_waiting())) {
    const TimePoint now = clock_.now();
    if (now >= until || stopped_) break;
    move_ended_.wait_until(lock, clock_, std::min(until, now + look_period), [] { return false; });
    catch_up();
    start_ready();
  }
  return used_bytes(place) < before;
}

std::uint64_t Scheduler::used_bytes(PlaceId at) const {
  return path_.snapshot().place(at).used_bytes;
}

/// Nothing comes to the place from now on. Throws: Error{busy} while paused; then nothing changed.
PlaceId Scheduler::close_for_drain(Location at) {
  const MutexLock lock(mutex_);
  require_not_paused("vma::drain");
  const PlaceId place = roster_.place_of(at);
  catch_up();
  if (drained_.contains(place)) return place;
  drained_.emplace(place, path_.snapshot().place(place).capacity_bytes);
  path_.books().set_capacity(place, 0);
  Decision decision;
  decision.kind = DecisionKind::drained;
  decision.from = at;
  decide(std::move(decision));
  return place;
}

DrainReport Scheduler::drain_place(Location at, const DrainOptions& options) {
  DrainReport report;
  const TimePoint begin = clock_.now();
  const TimePoint until = begin + options.deadline;
  const PlaceId place = close_for_drain(at);
  while (Chunk copy = ground_.memory.copies().drop_oldest(at)) {  // They are in no books of ours.
    ground_.memory.dismiss(std::move(copy));
    if (clock_.now() >= until) break;
  }
  MutexLock lock(mutex_);
  catch_up();
  const std::uint64_t before = used_bytes(place);
  while (used_bytes(place) > 0 && drained_.contains(place)) {  // A refill ends it.
    Plan plan;
    ++plans_;
    path_.complete_pressure({place, used_bytes(place), place}, plan);
    carry_out(plan, true);
    start_ready();
    const TimePoint now = clock_.now();
    const bool idle = plan.empty() && running_.empty() && !path_.has_waiting();
    if (now >= until || stopped_ || paused_ || (idle && !may_leave_later(place))) break;
    move_ended_.wait_until(lock, clock_, std::min(until, now + look_period), [] { return false; });
    catch_up();
  }
  give_up_drain(place);
  report.bytes_left = used_bytes(place);
  report.bytes_moved = before > report.bytes_left ? before - report.bytes_left : 0;
  report.wall = clock_.now() - begin;
  const Snapshot snapshot = path_.snapshot();
  for (const ChunkRow& row : snapshot.chunks()) {
    if (row.bytes == 0 || row.at != place || row.dropped) continue;
    ++report.left[!row.movable    ? "pinned"
                  : !row.in_scope ? "no attached stream may use it"
                  : paused_       ? "the scheduler was paused"
                                  : "no room elsewhere, or no time"];
  }
  return report;
}

void Scheduler::require_not_paused(const char* call) const {
  if (!paused_) return;
  throw Error(ErrorKind::busy, call,
              "the scheduler is paused, so nothing can move; resume it before draining");
}

/// The caller has gone: moves that have not started are cancelled.
void Scheduler::give_up_drain(PlaceId at) {
  for (const MoveNumber number : path_.awaited_from(at)) give_up(number, "the drain has ended");
  for (const Running& group : running_) {
    if (group.task && group.from == at && group.moves.front().victim && !group.goes_last())
      group.task->cancel();
  }
}

/// What cannot move for good is not waited for; a chunk that is held where it came to is.
bool Scheduler::may_leave_later(PlaceId at) const {
  const PlannerLimits& limits = path_.planner().limits();
  const Time held = std::max(limits.least_residence, limits.thrash_window + limits.thrash_pin);
  const Time now = path_.books().now();
  return std::ranges::any_of(path_.snapshot().chunks(), [&](const ChunkRow& row) {
    return row.bytes > 0 && row.at == at && row.movable && row.in_scope && !row.parked &&
           !row.dropped && row.last_move > Time::zero() && now < row.last_move + held;
  });
}

void Scheduler::refill(Location at) {
  const MutexLock lock(mutex_);
  leave_books_to_lost_policy();
  const auto drained = drained_.find(roster_.place_of(at));
  if (drained == drained_.end()) return;
  path_.books().set_capacity(drained->first, drained->second);
  drained_.erase(drained);
  Decision decision;
  decision.kind = DecisionKind::refilled;
  decision.to = at;
  decide(std::move(decision));
}

void Scheduler::set_capacity(Location at, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  leave_books_to_lost_policy();
  const PlaceId place = roster_.place_of(at);
  const auto drained = drained_.find(place);
  if (drained != drained_.end()) {
    drained->second = bytes;
  } else {
    path_.books().set_capacity(place, bytes);
  }
}

void Scheduler::set_parked(Address begin, bool parked) {
  const MutexLock lock(mutex_);
  leave_books_to_lost_policy();
  take_inbox();
  const ChunkRoster::Entry* entry = roster_.find(begin);
  if (entry == nullptr) return;
  for (std::size_t slot = 0; slot < entry->slots; ++slot) {
    const ChunkId chunk{static_cast<std::uint32_t>(index(entry->first) + slot)};
    path_.books().row(chunk).parked = parked;
    path_.books().touch(chunk);
  }
}

// --- Explanations

/// A wish that is refused anew at every tick is told once, with its last time.
std::vector<std::string> Scheduler::last_decisions(std::uint64_t allocation,
                                                   std::uint32_t slot) const {
  constexpr std::size_t decisions_seen = 1024, lines_max = 16;
  std::vector<std::string> lines;
  std::string last;
  for (const Decision& decision : ground_.decisions.about(allocation, slot, decisions_seen)) {
    std::string what = fmt::format("{} {}{}{}", decision.policy, to_string(decision.kind),
                                   decision.from ? " from " + to_string(*decision.from) : "",
                                   decision.to ? " to " + to_string(*decision.to) : "");
    // The figures of a reason change from tick to tick.
    const std::string reason = decision.reason.substr(0, decision.reason.find(':'));
    if (last == what + reason && !lines.empty()) lines.pop_back();
    last = what + reason;
    lines.push_back(
        fmt::format("{:.3f} s {}: {}{}{}", std::chrono::duration<double>(decision.time).count(),
                    what, decision.wish,
                    decision.wish.empty() || decision.reason.empty() ? "" : "; ", decision.reason));
  }
  if (lines.size() > lines_max) lines.erase(lines.begin(), lines.end() - lines_max);
  return lines;
}

std::vector<std::string> Scheduler::explain(Address address) const {
  std::vector<std::string> lines;
  const MutexLock lock(mutex_);
  const ChunkRoster::Entry* entry = roster_.around(address);
  if (entry == nullptr) return {"the scheduler does not know the chunk yet"};
  const auto slot = static_cast<std::uint32_t>((address - entry->begin) / entry->chunk_bytes);
  const ChunkId chunk{static_cast<std::uint32_t>(index(entry->first) + slot)};
  const Snapshot snapshot = path_.snapshot();
  const ChunkRow& row = snapshot.chunk(chunk);
  lines.push_back(fmt::format("chunk {} of {:#x}: {} bytes at {}, moved {} times", slot,
                              to_integer(entry->begin), row.bytes,
                              to_string(roster_.location_of(row.at)), row.generation));
  const ChunkRoster* roster = &roster_;  // The lock is held in the lambda too.
  snapshot.for_each_user(chunk, [&](PlaceId device, const Heat& heat) {
    lines.push_back(fmt::format("{} uses it {:.3g} GB/s now, {:.3g} GB/s on the long average",
                                to_string(roster->location_of(device)), heat.short_term() / 1e9,
                                heat.long_term() / 1e9));
  });
  if (!row.movable) {
    const auto allocation = entry->allocation.lock();
    const std::string why = allocation ? allocation->why_pinned() : "";
    lines.push_back("it cannot move: " + (why.empty() ? "it is pinned or poisoned" : why));
  }
  if (!row.in_scope) lines.push_back("it does not move: no attached stream may use it");
  if (row.parked) lines.push_back("it is parked");
  if (row.dropped)
    lines.push_back("its contents were dropped: it has no memory until it is resumed");
  if (row.moving) lines.push_back("a move of it is planned or in progress");
  if (paused_) lines.push_back("the scheduler is paused");
  for (std::string& line : last_decisions(row.allocation, slot)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace vma
