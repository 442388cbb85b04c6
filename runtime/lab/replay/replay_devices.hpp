#pragma once

#include "lab/replay/link_traffic.hpp"
#include "lab/replay/replay_account.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_memory.hpp"
#include "lab/replay/replay_moves.hpp"
#include "lab/replay/replay_options.hpp"
#include "lab/replay/replay_scheduler.hpp"
#include "lab/replay/router.hpp"
#include "lab/trace/trace_event.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <span>
#include <vector>

namespace vma {

/// The devices of a replay and the accesses that wait and run there, each cut where the memory lies
/// elsewhere. A gate stops them: what is spread over time at once, what is one kernel when it has
/// ended. Not thread-safe.
class ReplayDevices {
 public:
  struct Access {
    ReplayMemory::Index object = 0;
    std::uint64_t offset = 0, bytes = 0;
    double passes = 1;  ///< Over the range; of `read_write` both.
    Time duration{0}, came{0};
    UseKind use{};
    bool first_of_round = false;
    bool spread() const { return duration > Time::zero(); }
    double all_bytes() const { return static_cast<double>(bytes) * passes; }
  };

  /// Requires: all outlive it. `now` is the replay's time.
  ReplayDevices(const ReplayMachine& machine, const ReplayOptions& options,
                ReplayScheduler& scheduler, LinkTraffic& traffic, ReplayMoves& moves,
                ReplayMemory& memory, ReplayAccount& account, const Time& now);

  std::span<const DeviceLoad> loads() const noexcept { return loads_; }
  bool has_room(std::size_t device) const {
    return devices_[device].queue.size() < options_.queue_max;
  }
  /// Whether a program that waits for what it has launched waits before this access. Requires: each
  /// access is asked for once, in order.
  bool begins_round(const TraceEvent& event, std::size_t device, double bytes);
  /// Requires: there is room, and its object has chunks.
  void take(std::size_t device, const Access& access);

  /// When `begin_due` is to be called; `Time::max()`: never.
  Time next_begin() const;
  void begin_due();
  /// Requires: it is of an access, and has ended.
  void end_flow(FlowId flow);

  /// A gate has opened: all go on, and then the next gate may shut, behind what each has just
  /// begun.
  void open();
  /// If moves want a gate.
  void shut_gate();

  bool busy() const;

 private:
  struct Segment {
    const LinkPath* path = nullptr;
    double bytes = 0;
  };
  /// The part of an access within one chunk.
  struct Piece {
    ChunkId chunk{};
    PlaceId at{};
    double bytes = 0;
  };
  /// An access in progress.
  struct Running {
    Access access;
    std::size_t device = 0;
    std::vector<Segment> segments;
    std::size_t segment = 0;     // The current segment.
    std::optional<FlowId> flow;  // None: a gate stops it.
    double left = 0;             // Of the segment, without a flow.
    double rate_max = 0, local_s = 0, bytes = 0;
    Time began{0};
  };
  struct Device {
    std::deque<Access> queue;
    std::size_t before_gate = 0;   // Number in the queue that a shut gate waits for.
    Time ended = Time::min();      // When the last kernel ended.
    Time next = Time::max();       // When the next one can begin, if it only waits for time.
    Time batch_end = Time::min();  // Work that begins before it was launched together.
    Time kernel_took{0};           // Duration of the last one.
    Time could_end = Time::min();  // By the times of the trace: when everything so far could end.
    std::size_t kernels = 0;       // Accesses in progress that are not spread: none or one.
    std::size_t running = 0;       // All of them.
    std::optional<Time> stands;    // Since when a gate stops it.
    bool has_work() const { return running > 0 || !queue.empty(); }
  };
  using RunningAccess = std::list<Running>::iterator;

  void begin_next(std::size_t device);
  Time ready_at(std::size_t device, const Access& access) const;
  std::size_t launched(const Device& device) const;
  void begin(std::size_t device, const Access& access);
  bool find_pieces(PlaceId self, const Access& access);
  void cut(Running& running);
  void begin_segment(RunningAccess running);
  void begin_segments(std::span<const RunningAccess> begun);
  void end_access(const Running& running);
  void leave(std::size_t device, const Access& access);
  void drop(RunningAccess running);

  const ReplayMachine& machine_;
  const ReplayOptions& options_;
  ReplayScheduler& scheduler_;
  LinkTraffic& traffic_;
  ReplayMoves& moves_;
  ReplayMemory& memory_;
  ReplayAccount& account_;
  const Time& now_;
  std::vector<Device> devices_;
  std::vector<DeviceLoad> loads_;
  std::list<Running> running_;
  std::list<Running> unused_;                    // Nodes for the next ones.
  std::vector<Piece> pieces_;                    // Of the access that is cut.
  std::vector<RunningAccess> by_flow_;           // Of those that have a flow.
  std::vector<LinkTraffic::NewFlow> new_flows_;  // Of one call.
};

}  // namespace vma
