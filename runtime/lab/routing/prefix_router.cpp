#include "lab/routing/prefix_router.hpp"

#include <algorithm>
#include <utility>

namespace vma {

std::size_t PrefixRouter::choose(std::span<const TraceEvent> upcoming,
                                 std::span<const DeviceLoad> loads) {
  if (loads_.size() < loads.size()) loads_.resize(loads.size());
  pass(upcoming.front().time);
  Devices all;
  for (std::size_t device = 0; device < loads_.size(); ++device) all.set(device);
  const std::size_t chosen = least_loaded(longest_run(upcoming, all));
  return has_too_much(chosen) ? least_loaded(all) : chosen;
}

void PrefixRouter::note(const TraceEvent& access, std::size_t device) {
  if (loads_.size() <= device) loads_.resize(device + 1);
  const double twice = access.use == UseKind::read_write ? 2 : 1;
  const double bytes = static_cast<double>(access.bytes) * access.passes * twice;
  const Time lasts = std::max(access.duration, in_flight_least);
  const Time end = ((access.time + lasts - Time(1)) / end_step + 1) * end_step;
  Ending& ending = in_flight_[{end, device}];
  ending.bytes += bytes;
  ++ending.accesses;
  Load& load = loads_[device];
  load.bytes += bytes;
  ++load.accesses;
  ++load.so_far;
  objects_[access.object].users.set(device);
}

/// Takes off the loads what has ended by `now`.
void PrefixRouter::pass(Time now) {
  while (!in_flight_.empty() && in_flight_.begin()->first.first <= now) {
    const auto ended = in_flight_.begin();
    Load& load = loads_[ended->first.second];
    load.bytes -= ended->second.bytes;
    load.accesses -= ended->second.accesses;
    if (load.accesses == 0) load.bytes = 0;  // Clears rounding errors.
    in_flight_.erase(ended);
  }
}

/// The devices that have used the longest leading run of the task's objects; all of them if all
/// have used equally much.
PrefixRouter::Devices PrefixRouter::longest_run(std::span<const TraceEvent> upcoming,
                                                const Devices& all) {
  const std::uint32_t task = upcoming.front().task;
  tasks_ += task == 0 ? 0 : 1;
  Devices longest = all;
  for (const TraceEvent& event : upcoming.first(task == 0 ? 1 : upcoming.size())) {
    if (event.kind != TraceEventKind::access || event.task != task) continue;
    const auto object = objects_.find(event.object);
    if (object == objects_.end()) break;
    if (is_common(object->second, task)) continue;
    const Devices longer = longest & object->second.users;
    if (longer.none()) break;
    longest = longer;
  }
  return longest;
}

/// Counts the task that begins with the object. Requires: called while the task is routed.
bool PrefixRouter::is_common(Object& object, std::uint32_t task) const {
  if (task == 0) return false;
  if (std::exchange(object.last_task, task) != task) ++object.tasks;
  return tasks_ > common_tasks_least && object.tasks > common_share * (tasks_ - 1);
}

/// Requires: `among` has a device.
std::size_t PrefixRouter::least_loaded(const Devices& among) const {
  std::size_t least = loads_.size();
  for (std::size_t device = 0; device < loads_.size(); ++device) {
    if (!among.test(device)) continue;
    const auto key = [&](std::size_t of) { return std::pair(loads_[of].bytes, loads_[of].so_far); };
    if (least == loads_.size() || key(device) < key(least)) least = device;
  }
  return least;
}

bool PrefixRouter::has_too_much(std::size_t device) const {
  double sum = 0;
  for (const Load& load : loads_) sum += load.bytes;
  const double mean = sum / static_cast<double>(loads_.size());
  return loads_[device].bytes > std::max(excess_bytes, excess_factor * mean);
}

}  // namespace vma
