#include "lab/routing/router.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

namespace vma {
namespace {

constexpr std::array<std::string_view, 5> kinds = {"round_robin", "least_loaded", "object", "hash",
                                                   default_router};

class RoundRobin : public Router {
 public:
  std::string_view name() const noexcept override { return kinds[0]; }
  std::size_t choose(std::span<const TraceEvent>, std::span<const DeviceLoad> loads) override {
    return next_++ % loads.size();
  }

 private:
  std::size_t next_ = 0;
};

class LeastLoaded : public Router {
 public:
  std::string_view name() const noexcept override { return kinds[1]; }
  bool reads_loads() const noexcept override { return true; }
  std::size_t choose(std::span<const TraceEvent>, std::span<const DeviceLoad> loads) override {
    accesses_.resize(std::max(accesses_.size(), loads.size()));
    std::size_t least = 0;
    for (std::size_t device = 1; device < loads.size(); ++device) {
      const auto key = [&](std::size_t of) { return std::pair(loads[of].bytes, accesses_[of]); };
      if (key(device) < key(least)) least = device;
    }
    return least;
  }
  void note(const TraceEvent&, std::size_t device) override {
    accesses_.resize(std::max(accesses_.size(), device + 1));
    ++accesses_[device];
  }

 private:
  std::vector<std::uint64_t> accesses_;  // Per device, so far.
};

class WhereTheObjectWas : public LeastLoaded {
 public:
  std::string_view name() const noexcept override { return kinds[2]; }
  std::size_t choose(std::span<const TraceEvent> upcoming,
                     std::span<const DeviceLoad> loads) override {
    const auto known = last_.find(upcoming.front().object);
    return known == last_.end() ? LeastLoaded::choose(upcoming, loads) : known->second;
  }
  void note(const TraceEvent& access, std::size_t device) override {
    LeastLoaded::note(access, device);
    last_[access.object] = device;
  }
  void forget(std::uint64_t object) override { last_.erase(object); }

 private:
  std::unordered_map<std::uint64_t, std::size_t> last_;
};

class ByNumber : public Router {
 public:
  std::string_view name() const noexcept override { return kinds[3]; }
  std::size_t choose(std::span<const TraceEvent> upcoming,
                     std::span<const DeviceLoad> loads) override {
    // The finaliser of SplitMix64 (Steele, Lea, Flood: OOPSLA 2014) spreads adjacent numbers.
    std::uint64_t x = upcoming.front().object + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return static_cast<std::size_t>((x ^ (x >> 31)) % loads.size());
  }
};

}  // namespace

std::span<const TraceEvent> ReadAhead::next() {
  events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(returned_));
  if (events_.empty() && more_) {
    const std::span<const TraceEvent> first = source_->next();
    events_.assign(first.begin(), first.end());
    more_ = !first.empty();
  }
  returned_ = events_.size();
  while (more_ && events_.size() < returned_ + ahead_max) {
    const std::span<const TraceEvent> batch = source_->next();
    events_.insert(events_.end(), batch.begin(), batch.end());
    more_ = !batch.empty();
  }
  return std::span(events_).first(returned_);
}

std::span<const TraceEvent> ReadAhead::from(const TraceEvent& event) const {
  const std::span<const TraceEvent> rest(&event, events_.data() + events_.size());
  return rest.first(std::min(rest.size(), ahead_max + 1));
}

void Router::note(const TraceEvent&, std::size_t) {}
void Router::forget(std::uint64_t) {}

std::unique_ptr<Router> make_router(const std::string& name) {
  if (name == kinds[0]) return std::make_unique<RoundRobin>();
  if (name == kinds[1]) return std::make_unique<LeastLoaded>();
  if (name == kinds[2]) return std::make_unique<WhereTheObjectWas>();
  if (name == kinds[3]) return std::make_unique<ByNumber>();
  if (name == kinds[4]) return std::make_unique<PrefixRouter>();
  throw Error(ErrorKind::invalid_argument, "make_router",
              fmt::format("'{}' is not a router; known are {}", name, fmt::join(kinds, ", ")));
}

std::span<const std::string_view> router_names() noexcept {
  return kinds;
}

std::optional<std::size_t> TaskRouter::named(TracePlace at, std::size_t devices) {
  if (!at.is_set() || !at.is_gpu()) return std::nullopt;
  return static_cast<std::size_t>(at.place().ordinal) % devices;
}

std::size_t TaskRouter::choose(std::span<const TraceEvent> upcoming,
                               std::span<const DeviceLoad> loads) {
  const std::size_t device = find(upcoming, loads);
  router_->note(upcoming.front(), device);
  return device;
}

std::optional<std::size_t> TaskRouter::known(const RoutedTask& task, std::size_t devices) const {
  if (const auto device = named(task.at, devices)) return device;
  const auto found = request_devices_.find(task.request);
  return found == request_devices_.end() ? std::nullopt : std::optional(found->second);
}

std::size_t TaskRouter::choose(const RoutedTask& task, std::span<const DeviceLoad> loads) {
  const std::optional<std::size_t> device_known = known(task, loads.size());
  if (task.accesses.empty()) return device_known.value_or(0);
  // Routers see how long a task lasts, and how much it reads in all.
  std::vector<TraceEvent> accesses(task.accesses.begin(), task.accesses.end());
  for (TraceEvent& access : accesses) {
    access.duration = task.lasts;
    access.passes *= static_cast<float>(task.repeat);
  }
  const std::size_t device = device_known ? *device_known : router_->choose(accesses, loads);
  for (const TraceEvent& access : accesses) router_->note(access, device);
  if (task.request != 0) request_devices_.emplace(task.request, device);
  return device;
}

std::size_t TaskRouter::find(std::span<const TraceEvent> upcoming,
                             std::span<const DeviceLoad> loads) {
  const TraceEvent& access = upcoming.front();
  if (const auto device = named(access.at, loads.size())) return *device;
  if (access.task == 0) return router_->choose(upcoming, loads);
  if (const auto known = devices_.find(access.task); known != devices_.end()) return known->second;
  const std::size_t device = router_->choose(upcoming, loads);
  if (kept_.size() < tasks_kept) {
    kept_.push_back(access.task);
  } else {
    devices_.erase(std::exchange(kept_[next_], access.task));
    next_ = (next_ + 1) % tasks_kept;
  }
  devices_.emplace(access.task, device);
  return device;
}

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
  Load& load = loads_[device];
  if (load.ending == nullptr || load.ends != end) {  // Most end with the last one.
    load.ending = &in_flight_[{end, device}];
    load.ends = end;
  }
  load.ending->bytes += bytes;
  ++load.ending->accesses;
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
    if (load.ending == &ended->second) load.ending = nullptr;
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
