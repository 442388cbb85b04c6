#include "bench/ranking/trace_player.hpp"

#include "bench/harness/machine.hpp"
#include "runtime/runtime_parts.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <variant>

namespace vma {
namespace {

constexpr const char* call = "TracePlayer::play";

std::unique_ptr<Router> router_of(const std::string& name) {
  auto router = make_router(name);
  if (name == "round_robin" || name == "hash") return router;
  throw Error(
      ErrorKind::invalid_argument, "TracePlayer",
      fmt::format("the router '{}' looks at what devices do, or at later events; round_robin "
                  "and hash look at neither",
                  name));
}

[[noreturn]] void refuse_task(std::uint64_t event) {
  throw Error(ErrorKind::invalid_argument, call,
              fmt::format("event {}: of a task that was declared before, or was not", event));
}

/// Makes a device's context current, which is how a program says which device wants memory.
class ContextOf {
 public:
  ContextOf(Runtime& runtime, Stream stream)
      : driver_(*parts_of(runtime).driver), before_(driver_.current_context()) {
    const RuntimeParts::Entry entry(parts_of(runtime), "TracePlayer");
    driver_.set_current_context(entry->launcher.bind(stream).context);
  }
  ~ContextOf() {
    try {
      driver_.set_current_context(before_);
    } catch (const Error&) {  // The next call on this thread reports the error.
    }
  }
  ContextOf(const ContextOf&) = delete;
  ContextOf& operator=(const ContextOf&) = delete;

 private:
  Driver& driver_;
  const ContextHandle before_;
};

}  // namespace

TracePlayer::TracePlayer(Runtime& runtime, const PlayOptions& options, const std::string& router)
    : runtime_(runtime),
      options_(options),
      router_(router_of(router)),
      loads_(gpus_of(runtime).size()) {
  for (const Place at : gpus_of(runtime))
    devices_.push_back(std::make_unique<DevicePlayer>(runtime, at, options.launch_bytes));
  if (options.hbm_bytes == 0) return;
  rehearse_moves();
  cap(options.hbm_bytes);
  make_at_host();
}

/// Moves something off each GPU: the first live move creates what such moves need, which must get
/// its room before objects fill the GPU.
void TracePlayer::rehearse_moves() {
  constexpr std::size_t bytes = 1;
  const std::vector<Place> places = runtime_.places();
  for (const auto& device : devices_) {
    const auto other = std::ranges::find_if(places, [&](Place at) { return at != device->gpu(); });
    if (other == places.end()) return;
    void* const memory = runtime_.alloc(bytes, device->gpu());
    try {
      runtime_.migrate_async(memory, *other).wait();
    } catch (...) {
      runtime_.free(memory);
      throw;
    }
    runtime_.free(memory);
  }
}

/// Limits the room of the trace's objects on each GPU, and allocates it in advance as chunks, as
/// far as possible: creating chunks must not count as part of the run.
void TracePlayer::cap(std::uint64_t hbm_bytes) {
  for (const auto& device : devices_) runtime_.trim(device->gpu());
  for (const RuntimeStats::PlaceStats& place : runtime_.stats().places) {
    if (place.at.kind != Place::Kind::gpu) continue;
    runtime_.set_capacity(place.at, hbm_bytes + place.allocated_bytes + place.own_bytes);
    const std::uint64_t whole = hbm_bytes / options_.chunk_bytes * options_.chunk_bytes;
    try {
      if (whole > 0) runtime_.reserve(place.at, whole, options_.chunk_bytes);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
    }
  }
}

/// Allocates the host memory in advance: that takes 200 ms per GiB, which a replay does not model.
void TracePlayer::make_at_host() {
  const std::uint64_t hbm_bytes = options_.hbm_bytes * devices_.size();
  const std::vector<Place> places = runtime_.places();
  const auto host = std::ranges::find(places, Place::Kind::host, &Place::kind);
  if (options_.peak_bytes <= hbm_bytes || host == places.end()) return;
  runtime_.reserve(*host, options_.peak_bytes - hbm_bytes, options_.chunk_bytes);
}

/// The runtime takes back the remaining memory. The devices' threads end first.
TracePlayer::~TracePlayer() {
  devices_.clear();
}

PlayReport TracePlayer::play(TraceSource& source) {
  for (auto batch = source.next(); !batch.empty(); batch = source.next()) {
    for (const TraceEvent& event : batch) {
      ++report_.events;
      if (!tasks_.belongs(event)) {
        close_declaration();
        advance(source.tags(), false);
      }
      take(event, source.tags());
    }
  }
  close_declaration();
  advance(source.tags(), false);
  while (tasks_.busy()) advance(source.tags(), true);
  for (const auto& device : devices_) report_.devices.push_back(device->finish());
  report_.seconds = elapsed();
  return std::move(report_);
}

double TracePlayer::elapsed() const {
  if (!begun_) return 0;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

void TracePlayer::begin() {
  if (!begun_) begin_ = std::chrono::steady_clock::now();
  begun_ = true;
}

void TracePlayer::take(const TraceEvent& event, const TraceTags& tags) {
  switch (event.kind) {
    case TraceEventKind::access:
      if (tasks_.belongs(event)) return tasks_.add(event);
      return access(event);
    case TraceEventKind::allocation:
    case TraceEventKind::free:
    case TraceEventKind::mark:
    case TraceEventKind::hint:
      if (tasks_.belongs(event)) return tasks_.add(event);
      if (event.task != 0 && !tasks_.knows(event.task)) refuse_task(report_.events);
      if (!tasks_.defer(event)) carry_out(event, tags);
      return;
    case TraceEventKind::place: return place(event);
    case TraceEventKind::tag: live(event).tag = tags.text(event.tag); return;
    case TraceEventKind::task:
    case TraceEventKind::after: return take_task(event);
  }
}

void TracePlayer::take_task(const TraceEvent& event) {
  const bool fits =
      event.kind == TraceEventKind::task
          ? tasks_.declare(event, ends_.now())
          : tasks_.belongs(event) && tasks_.knows(static_cast<std::uint32_t>(event.object));
  if (!fits) refuse_task(report_.events);
  if (event.kind == TraceEventKind::after) tasks_.add(event);
}

void TracePlayer::carry_out(const TraceEvent& event, const TraceTags& tags) {
  if (event.kind == TraceEventKind::allocation) return allocate(event, tags);
  if (event.kind == TraceEventKind::free) return free(event);
  if (event.kind == TraceEventKind::hint)
    return give_hint(event, event.task == 0 ? std::nullopt : tasks_.find(event.task));
  report_.marks.emplace_back(elapsed(), std::string(tags.text(event.tag)));
}

void TracePlayer::close_declaration() {
  const ReplayTasks::Index task = tasks_.close();
  if (task == ReplayTasks::none) return;
  const ReplayTasks::Steps steps = tasks_.steps(task);
  task_devices_.push_back(
      router_.choose({steps.accesses, steps.at, steps.request, steps.repeat, steps.lasts}, loads_));
}

void TracePlayer::advance(const TraceTags& tags, bool wait) {
  if (!tasks_.busy() && !tasks_.has_due()) return;              // An open loop.
  const auto limit = std::chrono::milliseconds(wait ? 50 : 0);  // Then errors are looked for.
  for (const ReplayTasks::Index task : ends_.take(std::min(tasks_.next(), ends_.now() + limit)))
    tasks_.access_ended(task, ends_.now());
  tasks_.pass(ends_.now());
  while (tasks_.has_due()) {
    for (const ReplayTasks::Due& due : tasks_.take_due()) {
      if (const auto* event = std::get_if<TraceEvent>(&due)) {
        carry_out(*event, tags);
      } else {
        start(std::get<ReplayTasks::Index>(due));
      }
    }
  }
  for (const auto& device : devices_) device->check();
}

/// Begins the task's next step.
void TracePlayer::start(ReplayTasks::Index task) {
  begin();
  const ReplayTasks::Steps steps = tasks_.steps(task);
  DevicePlayer& device = *devices_[task_devices_[task]];
  std::vector<PlayedAccess> accesses;
  for (const TraceEvent& event : steps.accesses) {
    accesses.push_back(hold(event, device));
    accesses.back().ended = [this, task] { ends_.add(task); };
  }
  for (const TraceEvent& hint : steps.hints) give_hint(hint, task);
  ++report_.steps;
  tasks_.began(task, accesses.size(), ends_.now());
  device.push_all(std::move(accesses));
}

TracePlayer::Object& TracePlayer::live(const TraceEvent& event) {
  const auto found = objects_.find(event.object);
  const bool is_in = found != objects_.end() && event.offset + event.bytes <= found->second.bytes;
  if (is_in) return found->second;
  throw Error(
      ErrorKind::invalid_argument, call,
      fmt::format("event {}: {} of object {}, {}", report_.events, to_string(event.kind),
                  event.object, found == objects_.end() ? "which does not live" : "past its end"));
}

void TracePlayer::allocate(const TraceEvent& event, const TraceTags& tags) {
  const std::uint64_t chunk_bytes =
      event.chunk_bytes > 0 ? event.chunk_bytes : options_.chunk_bytes;
  const auto [added, is_new] = objects_.try_emplace(
      event.object, Object{event.bytes, chunk_bytes, std::string(tags.text(event.tag)), nullptr});
  if (!is_new) {
    throw Error(ErrorKind::invalid_argument, call,
                fmt::format("event {}: alloc of object {}, which lives already", report_.events,
                            event.object));
  }
  if (event.at.is_set() && has(event.at.place()))
    give_memory(added->second, event.at.place(), false);
}

bool TracePlayer::has(Place place) const {
  return std::ranges::count(runtime_.places(), place) > 0;
}

void TracePlayer::access(const TraceEvent& event) {
  live(event);
  DevicePlayer& device = *devices_[router_.choose(std::span(&event, 1), loads_)];
  begin();
  device.push(hold(event, device));
}

/// As in a replay, what is freed or has no memory yet has no hints.
void TracePlayer::give_hint(const TraceEvent& event, std::optional<ReplayTasks::Index> by) {
  const auto found = objects_.find(event.object);
  if (found == objects_.end() || !found->second.memory) return;
  const std::size_t device =
      TaskRouter::named(event.at, devices_.size()).value_or(by ? task_devices_[*by] : 0);
  const auto* const begin = static_cast<const std::byte*>(found->second.memory->begin());
  runtime_.advise(begin + event.offset, event.bytes, hint_of(event, devices_[device]->gpu()));
}

/// Gives the object memory if it has none.
PlayedAccess TracePlayer::hold(const TraceEvent& event, DevicePlayer& device) {
  Object& object = live(event);
  if (!object.memory) give_memory(object, device.gpu(), true);
  const double twice = event.use == UseKind::read_write ? 2 : 1;
  object.memory->hold();
  return {object.memory, event.offset, event.bytes, event.passes * twice, event.use, {}};
}

/// Allocates where the policy or the trace says, or else at the place with room that the device
/// reads fastest.
void TracePlayer::give_memory(Object& object, Place place, bool as_policy_says) {
  const auto begin = std::chrono::steady_clock::now();
  void* memory = try_alloc(object, place, as_policy_says);
  if (memory == nullptr) {
    ++report_.spilled;
    const std::vector<Place> places = runtime_.places();
    const auto user = std::ranges::find(places, place) - places.begin();
    const PlaceId near{static_cast<std::uint8_t>(
        place.kind == Place::Kind::gpu ? static_cast<std::size_t>(user) : 0)};
    for (const PlaceId at : parts_of(runtime_).machinery->costs.by_speed(near)) {
      memory = try_alloc(object, places[index(at)], false);
      if (memory != nullptr) break;
    }
  }
  if (memory == nullptr) {
    throw Error(ErrorKind::out_of_memory, call,
                fmt::format("event {}: {} bytes have room nowhere", report_.events, object.bytes));
  }
  object.memory = std::make_shared<PlayedMemory>(runtime_, memory, object.bytes);
  ++report_.allocations;
  if (begun_)
    report_.alloc_s +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Null if there is no room.
void* TracePlayer::try_alloc(const Object& object, Place place, bool as_policy_says) {
  AllocOptions how;
  how.chunk_bytes = object.chunk_bytes;
  how.tag = object.tag;
  try {
    if (!as_policy_says) return runtime_.alloc(object.bytes, place, how);
    const auto device =
        std::ranges::find(devices_, place, [](const auto& one) { return one->gpu(); });
    const ContextOf current(runtime_, (*device)->stream());
    return runtime_.alloc(object.bytes, how);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    return nullptr;
  }
}

/// Unlike in a replay, this takes time; but traces have these events before their first access.
void TracePlayer::place(const TraceEvent& event) {
  Object& object = live(event);
  if (!object.memory || !event.at.is_set() || !has(event.at.place())) return;
  MigrateOptions held;
  held.scope = StopScope::hold;
  runtime_.migrate(object.memory->begin(), event.offset, event.bytes, event.at.place(), held);
}

void TracePlayer::free(const TraceEvent& event) {
  const Object object = live(event);
  objects_.erase(event.object);
  router_.forget(event.object);
  if (object.memory) object.memory->let_go(devices_.front()->stream());
}

}  // namespace vma
