#pragma once

#include "lab/replay/link_traffic.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_moves.hpp"
#include "lab/replay/replay_options.hpp"
#include "lab/replay/replay_report.hpp"
#include "lab/replay/replay_windows.hpp"
#include "lab/trace/trace_event.hpp"
#include "lab/trace/trace_tags.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace vma {

/// Adds up the report of a replay while it runs. Not thread-safe.
class ReplayAccount {
 public:
  /// Requires: the machine outlives it.
  ReplayAccount(const ReplayMachine& machine, const ReplayOptions& options);

  /// The first event is at `now`. Requires: the tags outlive it.
  void begin(const TraceTags& tags, Time now);

  Time begun() const noexcept { return report_.begin; }
  /// Throws: Error{invalid_argument} that names the event being taken.
  [[noreturn]] void refuse(const TraceEvent& event, const char* why) const;
  void event_taken() noexcept { ++report_.events; }
  void mark(TagId text, Time now);

  void access_lost() noexcept { ++report_.accesses_lost; }
  void allocation_lost() noexcept { ++report_.allocations_lost; }
  void chunk_spilled() noexcept { ++report_.chunks_spilled; }
  /// An access began that has waited.
  void access_began(Time waited) noexcept;
  /// It accesses bytes at a place.
  void reached(std::size_t device, PlaceId at, double bytes);
  struct EndedAccess {
    std::size_t device = 0;
    TagId tag{};
    double bytes = 0;
    double local_s = 0;  ///< What it takes if all lies in its device's HBM.
    Time began{0};
  };
  void access_ended(const EndedAccess& access, Time now);
  void device_stood(std::size_t device, Time time) { report_.devices[device].stood += time; }
  void move_ended(const ReplayMoves::Ended& ended, Time now);
  void chunk_removed(ChunkId chunk) { came_from_.erase(chunk); }
  /// No access is under way. If none begins any more, no access waits for what moves carry from
  /// here on, and the report leaves that out.
  void note_links(const LinkTraffic& traffic);

  /// Whether `pass_window` is due, before anything happens at `now`.
  bool window_over(Time now) const noexcept { return windows_.over(now); }
  /// Up to `now` the places have held `resident`.
  void pass_window(Time now, const std::vector<std::uint64_t>& resident);

  /// The report. Once.
  ReplayReport finish(const ReplayScheduler& scheduler);

 private:
  ReplayTenant& tenant_of(TagId tag);

  const ReplayMachine& machine_;
  const Time thrash_window_;
  const TraceTags* tags_ = nullptr;
  std::map<ChunkId, std::pair<PlaceId, Time>> came_from_;  // Of chunks that have moved.
  std::vector<ReplayTenant*> tenants_;                     // In the report, by tag.
  std::vector<double> carried_;                            // By link, until the last access ended.
  ReplayWindows windows_;
  ReplayReport report_;
};

}  // namespace vma
