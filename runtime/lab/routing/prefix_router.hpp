#pragma once

#include "lab/routing/router.hpp"
#include "machine/machine_schema.hpp"

#include <boost/unordered/unordered_flat_map.hpp>

#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace vma {

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
  struct Load {
    double bytes = 0;            // In flight.
    std::uint64_t accesses = 0;  // In flight.
    std::uint64_t so_far = 0;    // Accesses; decides among devices of equal bytes.
  };
  struct Ending {
    double bytes = 0;
    std::uint64_t accesses = 0;
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
