#pragma once

#include "lab/replay/launch_uses.hpp"
#include "lab/replay/replay_account.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_memory.hpp"
#include "lab/replay/replay_moves.hpp"
#include "lab/replay/replay_options.hpp"
#include "lab/replay/replay_scheduler.hpp"
#include "lab/replay/replay_tasks.hpp"
#include "lab/routing/router.hpp"
#include "lab/trace/trace_event.hpp"
#include "lab/traffic/link_traffic.hpp"

#include <vma/snapshot.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <span>
#include <vector>

namespace vma {

/// The bytes of an access, numbered in the order in which it gets to them: pass by pass over its
/// range. If passes are no whole number, each leaves out the same share of every part.
class AccessBytes {
 public:
  /// A number, split into whole passes and the rest.
  struct Point {
    double number = 0, whole = 0, in_pass = 0;
  };

  AccessBytes() = default;
  /// Requires: both are above zero.
  AccessBytes(double range_bytes, double passes)
      : passes_(passes),
        all_(range_bytes * passes),
        pass_(all_ / std::ceil(passes)),
        scale_(pass_ / range_bytes) {}

  double all() const noexcept { return all_; }
  /// Requires: `number` is not negative, nor above `all` but for rounding.
  Point point(double number) const {
    const auto passes = static_cast<std::int64_t>(number / pass_);  // `floor` may be a call.
    const auto whole = static_cast<double>(passes);
    return {number, whole, number - whole * pass_};
  }
  /// How many of the bytes from one point to the other are in the part of the range from `begin` to
  /// `end`.
  double in_part(const Point& from, const Point& to, double begin, double end) const {
    if (from.number <= 0 && to.number >= all_) return passes_ * (end - begin);
    const double first = begin * scale_, bytes = (end - begin) * scale_;
    const auto reached = [&](double number) {
      return std::min(std::max(number - first, 0.0), bytes);
    };
    const double whole = to.whole - from.whole;  // One more if `to` is before `from` in its pass.
    return std::max(whole * bytes + reached(to.in_pass) - reached(from.in_pass), 0.0);
  }

 private:
  double passes_ = 1, all_ = 0;
  double pass_ = 0;   // Bytes of a pass.
  double scale_ = 1;  // These over the bytes of the range.
};

/// The devices of a replay, with their waiting and running accesses. Splits each access where its
/// memory changes place. A gate stops accesses that are spread over time at once, and kernels when
/// they end; a suspension stops both at once. When it opens, the rest of each stopped access
/// continues where its memory lies now. Not thread-safe.
///
/// One owner: one access uses devices, links and memory in one step, and they meet here.
class ReplayDevices {
 public:
  struct Access {
    ReplayMemory::Index object = 0;
    std::uint64_t offset = 0, bytes = 0;
    double passes = 1;  ///< Over the range; doubled for `read_write`.
    Time duration{0}, came{0};
    Time stopped{0};  ///< How long its device had been stopped when it came.
    UseKind use{};
    bool first_of_round = false;
    ReplayTasks::Index task = ReplayTasks::none;  ///< The declared task that it belongs to.
    bool spread() const { return duration > Time::zero(); }
    /// The kernels that it stands for, each of which passes over its range once.
    double launches() const {
      const double whole = use == UseKind::read_write ? passes / 2 : passes;
      return spread() ? std::max(std::ceil(whole), 1.0) : 1;
    }
    double all_bytes() const { return static_cast<double>(bytes) * passes; }
  };

  /// Requires: all references outlive it. `now` is the replay's time.
  ReplayDevices(const ReplayMachine& machine, const ReplayOptions& options,
                ReplayScheduler& scheduler, LinkTraffic& traffic, ReplayMoves& moves,
                ReplayMemory& memory, ReplayTasks& tasks, ReplayAccount& account,
                LaunchUses& launches, const Time& now);

  std::span<const DeviceLoad> loads() const noexcept { return loads_; }
  bool has_room(std::size_t device) const {
    return devices_[device].queued_open < options_.queue_max;
  }
  /// Whether a program that waits for its launches would wait before this access. Requires: called
  /// once per access, in order.
  bool begins_round(const TraceEvent& event, std::size_t device, double bytes);
  /// Requires: the object has chunks, and the queue has room if the access belongs to no declared
  /// task.
  void take(std::size_t device, const Access& access);

  /// When to call `begin_due`; `Time::max()`: never.
  Time next_begin() const;
  void begin_due();
  /// Requires: the flow belongs to an access, and has ended.
  void end_flow(FlowId flow);

  /// What programs have done that go on as fast as the machine lets them: bytes of closed loops.
  std::uint64_t progress() const noexcept { return static_cast<std::uint64_t>(progress_); }
  /// Whether an access in progress has uses that matter and were not reported yet.
  bool has_unreported() const noexcept { return unreported_ > 0 && scheduler_.wants_uses(); }
  /// Reports what the accesses in progress use from now on for `use_interval`.
  void report_uses();

  /// A gate has opened, and the objects in `moved` have changed places: resumes all devices, and
  /// then closes the next gate if one is due, after the work that each device has just begun.
  void open(std::span<const ReplayMemory::Index> moved);
  /// Closes a gate if moves want one.
  void shut_gate();

  bool busy() const;

 private:
  /// A stretch of an access at one place, in one direction.
  struct Segment {
    const LinkPath* path = nullptr;
    double bytes = 0;
    PlaceId at{};
    bool writes = false;
  };
  /// The part of an access's range within one chunk.
  struct Part {
    ChunkId chunk{};
    PlaceId at{};
    double begin = 0, end = 0;  // In the range.
  };
  /// An access in progress.
  struct Running {
    Access access;
    AccessBytes bytes;
    std::size_t device = 0;
    std::vector<Part> parts;
    std::vector<Segment> segments;  // The current slice, or all that is left.
    std::size_t segment = 0;        // The current segment.
    FlowId flow{};                  // That of the current segment.
    double done = 0;                // Bytes of the segments before the current one.
    double slice_begin = 0, slice_end = 0;
    bool alternates = false;      // The current slice is at several places.
    double to_write = 0;          // Of the other bytes, those that are written.
    double launched = 0;          // Those of its launches that were told.
    AccessBytes::Point reported;  // The end of the bytes whose use was reported.
    double rate_max = 0, local_s = 0;
    Time began{0}, stopped{0};  // The latter: of its device, until then.
  };
  struct Device {
    std::deque<Access> queue;
    std::size_t queued_open = 0;   // Queued accesses that belong to no declared task.
    std::size_t before_gate = 0;   // Queued accesses that a closed gate still waits for.
    Time ended = Time::min();      // When the last kernel ended.
    Time next = Time::max();       // When the next one can begin, if only time holds it up.
    Time batch_end = Time::min();  // Work that begins before this time was launched in one batch.
    Time kernel_took{0};           // Duration of the last kernel.
    Time could_end = Time::min();  // When all work so far could end, by the times in the trace.
    std::size_t kernels = 0;       // Running accesses that are not spread: none or one.
    std::size_t running = 0;       // All running accesses.
    std::optional<Time> stands;    // Since when a gate stops it.
    Time stopped{0};               // Sum of all such times, without this one.
    bool has_work() const { return running > 0 || !queue.empty(); }
  };
  using RunningAccess = std::list<Running>::iterator;

  bool suspends() const noexcept { return options_.stop == StopKind::suspension; }
  Time stopped(std::size_t device) const;
  void begin_next(std::size_t device);
  Time ready_at(std::size_t device, const Access& access) const;
  std::size_t launched(const Device& device) const;
  void begin(std::size_t device, const Access& access);
  bool find_parts(Running& running) const;
  void begin_slice(Running& running) const;
  void cut(Running& running);
  void account_for(Running& running, double bytes);
  void report(Running& running, double until);
  void tell_launches(Running& running, double until);
  void begin_segment(RunningAccess running);
  void begin_segments(std::span<const RunningAccess> begun);
  bool end_segment(RunningAccess ended);
  void end_access(const Running& running);
  void leave_device(const Running& running);
  void leave(std::size_t device, const Access& access);
  void drop(RunningAccess running);

  const ReplayMachine& machine_;
  const ReplayOptions& options_;
  ReplayScheduler& scheduler_;
  LinkTraffic& traffic_;
  ReplayMoves& moves_;
  ReplayMemory& memory_;
  ReplayTasks& tasks_;
  ReplayAccount& account_;
  LaunchUses& launches_;
  const Time& now_;
  std::vector<Device> devices_;
  std::vector<DeviceLoad> loads_;
  std::list<Running> running_;
  std::list<Running> unused_;  // Recycled nodes.
  double progress_ = 0;
  std::size_t unreported_ = 0;                   // Running accesses that have uses to report.
  std::vector<RunningAccess> by_flow_;           // Indexed by flow.
  std::vector<LinkTraffic::NewFlow> new_flows_;  // Buffer of one call.
};

}  // namespace vma
