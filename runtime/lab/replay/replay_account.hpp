#pragma once

#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_moves.hpp"
#include "lab/replay/replay_options.hpp"
#include "lab/replay/replay_report.hpp"
#include "lab/trace/trace_event.hpp"
#include "lab/traffic/link_traffic.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vma {

/// The time windows of a replay up to the current one, all of the same length. If there are more
/// than `most`, pairs are merged into windows of twice the length. Not thread-safe.
class ReplayWindows {
 public:
  /// Requires: both are above zero.
  explicit ReplayWindows(Time length, std::size_t most = 10'000);

  void begin(Time now);
  /// Whether the current window has ended by `now`. If so, call `pass` before anything else happens
  /// at `now`.
  bool over(Time now) const noexcept { return now >= end_; }
  /// Ends the windows before `now`, during which the places held `resident`. Requires: `over`.
  void pass(Time now, const std::vector<std::uint64_t>& resident);
  /// The current window. Requires: `begin`.
  ReplayWindow& current() { return windows_.back(); }
  Time length() const noexcept { return length_; }

  /// Returns all windows; the last one ends now.
  std::vector<ReplayWindow> take(const std::vector<std::uint64_t>& resident);

 private:
  void halve();

  const std::size_t most_;
  Time length_;
  Time begin_{0}, end_{0};  // Start of the first window; end of the current one.
  std::vector<ReplayWindow> windows_;
};

/// Accumulates the report of a replay. Not thread-safe.
class ReplayAccount {
 public:
  /// Requires: the machine outlives it.
  ReplayAccount(const ReplayMachine& machine, const ReplayOptions& options);

  /// Starts with the first event at `now`. Requires: the tags outlive it.
  void begin(const TraceTags& tags, Time now);

  Time begun() const noexcept { return report_.begin; }
  /// Throws: Error{invalid_argument} that names the event.
  [[noreturn]] void refuse(const TraceEvent& event, const char* why) const;
  void event_taken() noexcept { ++report_.events; }
  void mark(TagId text, Time now);

  void access_lost() noexcept { ++report_.accesses_lost; }
  void allocation_lost() noexcept { ++report_.allocations_lost; }
  /// `known`: of memory that exists; otherwise nobody was told.
  void hint_given(bool known) noexcept {
    ++report_.hints;
    report_.hints_lost += known ? 0 : 1;
  }
  void chunk_spilled() noexcept { ++report_.chunks_spilled; }
  /// An access began after waiting this long, besides the time that its device stopped.
  void access_began(Time waited) noexcept;
  /// A device accesses bytes at a place.
  void reached(std::size_t device, PlaceId at, double bytes);
  struct EndedAccess {
    std::size_t device = 0;
    TagId tag{};
    double bytes = 0;
    double local_s = 0;  ///< Duration if all its bytes were in its device's HBM.
    Time began{0};
    Time stopped{0};  ///< Of its time, how long its device was stopped at gates.
  };
  void access_ended(const EndedAccess& access, Time now);
  void device_stopped(std::size_t device, Time time) { report_.devices[device].stopped += time; }
  void gate_opened(Time skew, Time stall) noexcept;
  void move_ended(const ReplayMoves::Ended& ended, Time now);
  void chunk_removed(ChunkId chunk) {
    if (index(chunk) < came_from_.size()) came_from_[index(chunk)].reset();
  }
  /// Records what the links have carried. Called when no access is in progress: if none follows, no
  /// access waits for the bytes that moves carry later, so the report omits them.
  void note_links(const LinkTraffic& traffic);

  /// Whether `pass_window` is due. To be called before anything else happens at `now`.
  bool window_over(Time now) const noexcept { return windows_.over(now); }
  /// Ends the windows before `now`, in which the places held `resident`.
  void pass_window(Time now, const std::vector<std::uint64_t>& resident);

  /// Completes and returns the report. Call once.
  ReplayReport finish(const ReplayScheduler& scheduler);

 private:
  /// Where a chunk was before its last move, and when it moved.
  struct Origin {
    PlaceId at{};
    Time moved{0};
  };

  ReplayTenant& tenant_of(TagId tag);

  const ReplayMachine& machine_;
  const Time thrash_window_;
  const TraceTags* tags_ = nullptr;
  std::vector<std::optional<Origin>> came_from_;  // Indexed by chunk, if it has moved.
  std::vector<std::uint64_t> route_bytes_;        // Moved, by source and target.
  std::vector<ReplayTenant*> tenants_;            // In the report, indexed by tag.
  std::vector<double> carried_;                   // Per link, until the last access ended.
  ReplayWindows windows_;
  ReplayReport report_;
};

}  // namespace vma
