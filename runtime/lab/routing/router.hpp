#pragma once

#include "lab/trace/trace_event.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vma {

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

}  // namespace vma
