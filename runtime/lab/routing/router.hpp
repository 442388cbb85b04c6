#pragma once

#include "lab/trace/trace_event.hpp"
#include "lab/trace/trace_source.hpp"
#include "machine/machine_description.hpp"

#include <boost/unordered/unordered_flat_map.hpp>

#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vma {

/// Reads a trace a little ahead, for routers that look at the rest of a task. What they see does
/// not depend on how the source cuts its batches, so all formats of a trace give the same replay.
/// Not thread-safe.
class ReadAhead {
 public:
  /// Number of events after one that `from` returns, unless the trace ends.
  static constexpr std::size_t ahead_max = 1024;

  /// Requires: the source outlives it.
  explicit ReadAhead(TraceSource& source) : source_(&source) {}

  /// The next events; none after the last. Valid until the next call. Throws: as the source, which
  /// is read ahead of them.
  std::span<const TraceEvent> next();
  /// The event and at most `ahead_max` that follow it. Requires: it is one of those that `next` has
  /// returned last.
  std::span<const TraceEvent> from(const TraceEvent& event) const;

 private:
  TraceSource* source_;
  std::vector<TraceEvent> events_;  // Those returned last, then what was read ahead.
  std::size_t returned_ = 0;        // Number of the former.
  bool more_ = true;
};

/// The pending work of a device when a task is routed.
struct DeviceLoad {
  std::size_t waiting = 0;  ///< Waiting and running accesses.
  double bytes = 0;         ///< Their bytes.
};

/// Chooses the device of a task that the trace does not place. Deterministic. Not thread-safe.
class Router {
 public:
  virtual ~Router() = default;
  virtual std::string_view name() const noexcept = 0;
  /// Whether choices depend on the loads, and so on the replay. If not, they depend only on the
  /// trace: each policy is given the same work on the same devices, and bounds exist.
  virtual bool reads_loads() const noexcept { return false; }
  /// `upcoming` begins with the access to route; the next events of the trace follow, see
  /// `ReadAhead`. `loads` has one element per device, and at least one; returns an index into it.
  virtual std::size_t choose(std::span<const TraceEvent> upcoming,
                             std::span<const DeviceLoad> loads) = 0;
  /// The access happens on this device, whether the router or the trace chose it.
  virtual void note(const TraceEvent& access, std::size_t device);
  /// The object was freed.
  virtual void forget(std::uint64_t object);
};

/// The routers:
/// - `round_robin`: the next device in turn.
/// - `least_loaded`: the device with the fewest bytes of waiting and running accesses; among
///   equals, the one with the fewest accesses so far.
/// - `object`: where the object was last used; for new objects as `least_loaded`.
/// - `hash`: depends only on the object's number. If all tasks begin with one object, all go to one
///   device.
/// - `prefix`: by the longest shared prefix, see `PrefixRouter`.
/// Throws: Error{invalid_argument} that lists these names.
std::unique_ptr<Router> make_router(const std::string& name);
std::span<const std::string_view> router_names() noexcept;

/// The router where none is named.
inline constexpr std::string_view default_router = "prefix";

/// A task of a closed loop, whose accesses are known before it begins.
struct RoutedTask {
  std::span<const TraceEvent> accesses;  ///< Of one step.
  TracePlace at;                         ///< As declared.
  std::uint64_t request = 0;             ///< 0: none.
  std::uint64_t repeat = 1;              ///< Steps.
  Time lasts{0};                         ///< How long all of them compute.
};

/// Keeps the accesses of one task together, and the tasks of one request: the first one is routed,
/// the others follow.
class TaskRouter {
 public:
  /// The device that an access or a task names: modulo the number of devices. Null: none.
  static std::optional<std::size_t> named(TracePlace at, std::size_t devices);

  explicit TaskRouter(std::unique_ptr<Router> router) : router_(std::move(router)) {}

  std::string_view name() const noexcept { return router_->name(); }
  bool reads_loads() const noexcept { return router_->reads_loads(); }
  /// The device that the trace names; otherwise the router's choice.
  /// Requires: called once for each access, in the trace's order; `upcoming` as for `Router`.
  std::size_t choose(std::span<const TraceEvent> upcoming, std::span<const DeviceLoad> loads);
  /// Routes a declared task as a whole: to its known device, or else to the router's choice.
  /// Requires: called in the trace's order.
  std::size_t choose(const RoutedTask& task, std::span<const DeviceLoad> loads);
  /// The device that the task names, or that of its request. Null: the router chooses.
  std::optional<std::size_t> known(const RoutedTask& task, std::size_t devices) const;
  void forget(std::uint64_t object) { router_->forget(object); }

 private:
  /// Tasks may begin in any order but are short: a task routed long ago has ended.
  static constexpr std::size_t tasks_kept = 4096;

  std::size_t find(std::span<const TraceEvent> upcoming, std::span<const DeviceLoad> loads);

  std::unique_ptr<Router> router_;
  std::unordered_map<std::uint32_t, std::size_t> devices_;          // By task.
  std::unordered_map<std::uint64_t, std::size_t> request_devices_;  // Of declared tasks.
  std::vector<std::uint32_t> kept_;                                 // A ring buffer.
  std::size_t next_ = 0;
};

/// Routes a task to the device that has used the longest leading run of its objects, like the
/// cache-aware routers of SGLang and llm-d: a conversation stays where its earlier requests were. A
/// task goes to the least loaded device if no device has used more of it than all have, and among
/// several devices with the longest run to the least loaded of these. Objects that most tasks begin
/// with, such as a common system prompt, say nothing. A device that has much more work than the
/// others gets no more: the least loaded one does.
///
/// The load of a device is the bytes of its accesses that are in flight by the times in the trace,
/// at least for a second each. So choices depend only on the trace.
class PrefixRouter : public Router {
 public:
  /// A device has too much work if it has more than both: this many bytes, and this many times the
  /// mean over devices. 1 TiB is about a quarter of a second of an H200's HBM.
  static constexpr double excess_bytes = 1e12;
  static constexpr double excess_factor = 1.5;
  /// Most tasks: more than this share of all tasks so far, as soon as there are so many.
  static constexpr double common_share = 0.75;
  static constexpr std::uint32_t common_tasks_least = 8;
  static constexpr Time in_flight_least = std::chrono::seconds(1);
  /// Ends are rounded up to multiples of this, which bounds the number that is stored.
  static constexpr Time end_step = std::chrono::milliseconds(100);

  std::string_view name() const noexcept override { return "prefix"; }
  std::size_t choose(std::span<const TraceEvent> upcoming,
                     std::span<const DeviceLoad> loads) override;
  void note(const TraceEvent& access, std::size_t device) override;
  void forget(std::uint64_t object) override { objects_.erase(object); }

 private:
  using Devices = std::bitset<machine_gpus_max>;
  struct Ending {
    double bytes = 0;
    std::uint64_t accesses = 0;
  };
  struct Load {
    double bytes = 0;            // In flight.
    std::uint64_t accesses = 0;  // In flight.
    std::uint64_t so_far = 0;    // Accesses; decides among devices of equal bytes.
    Ending* ending = nullptr;    // In `in_flight_`, of the last access; null once it has ended.
    Time ends{0};                // Its end.
  };

  struct Object {
    Devices users;                // Devices that have used it.
    std::uint32_t tasks = 0;      // Tasks after the first that began with it.
    std::uint32_t last_task = 0;  // Of these.
  };

  void pass(Time now);
  Devices longest_run(std::span<const TraceEvent> upcoming, const Devices& all);
  bool is_common(Object& object, std::uint32_t task) const;
  std::size_t least_loaded(const Devices& among) const;
  bool has_too_much(std::size_t device) const;

  std::vector<Load> loads_;                                   // Per device.
  std::map<std::pair<Time, std::size_t>, Ending> in_flight_;  // Keyed by end and device.
  boost::unordered_flat_map<std::uint64_t, Object> objects_;
  std::uint32_t tasks_ = 0;  // Routed so far.
};

}  // namespace vma
