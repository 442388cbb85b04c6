#pragma once

#include "lab/replay/link_traffic.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_moves.hpp"
#include "lab/replay/replay_objects.hpp"
#include "lab/replay/replay_report.hpp"
#include "lab/replay/replay_scheduler.hpp"
#include "lab/replay/replay_windows.hpp"
#include "lab/replay/router.hpp"
#include "lab/trace/trace_source.hpp"

#include <vma/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vma {

/// When accesses come.
enum class Pacing {
  timed,    ///< At their time, or when their device has room for them.
  at_once,  ///< As soon as their device has room for them: the times give the order only.
};

struct ReplayOptions {
  Pacing pacing = Pacing::timed;
  std::uint64_t chunk_bytes = std::uint64_t{32} << 20;  ///< Where the trace does not say.
  std::size_t queue_max = 64;  ///< Accesses that wait at one device; the trace waits for room.
  /// An access that comes so late that those before it at its device may have ended (in half of
  /// what they take in its own HBM) was launched by a program that waited for these: the first of a
  /// round. Its gap is longer, and what has been launched ends before a gate has the device.
  bool rounds = false;
  /// Where not zero, a device's program launches about so much time's work at once and waits for
  /// all of it, then for the next: what it has launched ends before a gate has the device, and the
  /// first kernel of each batch has the longer gap.
  Time ahead{0};
  std::size_t spread_max = 256;  ///< Accesses with a duration that run at one device at a time.
  Time drain = std::chrono::milliseconds(1);
  Time tick = std::chrono::milliseconds(10);
  /// An allocation without room waits for moves so long, then goes where there is room.
  Time room_limit = std::chrono::milliseconds(500);
  Time window = std::chrono::milliseconds(100);  ///< Of the report.
  Time stall_budget{0};  ///< Of a second, as the mover keeps it; 0: no limit.
  ReplaySchedulerLimits scheduler;
};

/// Replays a trace on a machine with a policy, in virtual time: what would have happened. Of
/// accesses that go as fast as memory lets them a device does one at a time, in the order in which
/// they come to it; one with a duration runs beside the others, and is spread over that time unless
/// memory is slower. An access goes over its range from front to back, at the rate that the links
/// give it beside all other accesses and moves. Deterministic: the same inputs give the same
/// report. docs/guide/replay.md says what is not modelled. Not thread-safe; one replay of one
/// trace.
class Replay {
 public:
  /// Requires: all live as long as it. `policy` begins without a past.
  Replay(const ReplayMachine& machine, const ReplayOptions& options, std::unique_ptr<Policy> policy,
         std::unique_ptr<Router> router);

  /// Throws: what the source throws; Error{invalid_argument} for a trace without events, and for an
  /// event that does not fit those before it or is beyond a limit.
  ReplayReport run(TraceSource& source);

 private:
  struct Access {
    ReplayObjects::Index object = 0;
    std::uint64_t offset = 0, bytes = 0;
    double passes = 1;  // Over the range; of `read_write` both.
    Time duration{0}, came{0};
    UseKind use{};
    bool first_of_round = false;
    bool spread() const { return duration > Time::zero(); }
  };
  struct Segment {
    const LinkPath* path = nullptr;
    double bytes = 0;
  };
  /// Of an access, in one chunk.
  struct Piece {
    ChunkId chunk{};
    PlaceId at{};
    double bytes = 0;
  };
  /// An access under way.
  struct Running {
    Access access;
    std::size_t device = 0;
    std::vector<Segment> segments;
    std::size_t segment = 0;     // That it is at.
    std::optional<FlowId> flow;  // None: a gate keeps it.
    double left = 0;             // Of the segment, without a flow.
    double rate_max = 0, local_s = 0, bytes = 0;
    Time began{0};
  };
  struct Device {
    std::deque<Access> queue;
    std::size_t before_gate = 0;   // Of the queue: what a shut gate waits for.
    Time ended = Time::min();      // The last kernel.
    Time next = Time::max();       // When the next one can begin, if only time keeps it.
    Time batch_end = Time::min();  // What begins before it was launched together.
    Time kernel_took{0};           // The last one.
    Time could_end = Time::min();  // By the times of the trace: what has come so far.
    std::size_t kernels = 0;       // Accesses under way that are not spread: none or one.
    std::size_t running = 0;       // All of them.
    std::optional<Time> stands;    // Since when a gate keeps it from what it has to do.
  };

  // The trace
  bool read_head();
  void admit();
  /// False: it has to wait.
  bool take(const TraceEvent& event);
  bool take_access(const TraceEvent& event);
  bool allocate(const TraceEvent& event);
  bool give_chunks(const TraceEvent& event, ReplayObjects::Index index, PlaceId device);
  bool find_room(std::span<const std::uint64_t> sizes);
  void spill(std::span<const std::uint64_t> sizes);
  bool place_range(const TraceEvent& event);
  std::optional<PlaceId> place_of(TracePlace at) const;
  void free_object(const TraceEvent& event);
  void unpin(ReplayObjects::Index index);
  Time next_admission() const;

  // The devices
  void begin_next(std::size_t device);
  void begin_due();
  Time next_begin() const;
  Time ready_at(std::size_t device, const Access& access) const;
  std::size_t launched(const Device& device) const;
  bool begins_round(const TraceEvent& event, std::size_t device, double bytes);
  void begin(std::size_t device, const Access& access);
  bool find_pieces(PlaceId self, const Access& access);
  void cut(Running& running);
  void lose(std::size_t device, const Access& access);
  void leave(std::size_t device, const Access& access);
  void begin_segment(std::list<Running>::iterator running);
  void begin_segments(std::span<const std::list<Running>::iterator> begun);
  void end_flow();
  void end_access(const Running& running);
  void drop(std::list<Running>::iterator running);
  static bool has_work(const Device& device);

  // The moves
  void start_moves();
  void end_moves();
  void open_devices();
  void shut_gate();

  bool busy() const;
  void note(const Running& running);
  void note_move(const ReplayMoves::Ended& ended);
  void note_links();
  ReplayTenant& tenant_of(TagId tag);
  void finish();

  const ReplayMachine& machine_;
  const ReplayOptions options_;
  ReplayScheduler scheduler_;
  LinkTraffic traffic_;
  ReplayMoves moves_;
  ReplayObjects objects_;
  TaskRouter router_;
  std::vector<Device> devices_;
  std::list<Running> running_;
  std::list<Running> unused_;                          // Nodes for the next ones.
  std::vector<Piece> pieces_;                          // Of the access that is cut.
  std::vector<std::list<Running>::iterator> by_flow_;  // Of those that have a flow.
  std::vector<LinkTraffic::NewFlow> new_flows_;        // Of one call.
  std::vector<DeviceLoad> loads_;

  TraceSource* source_ = nullptr;
  std::span<const TraceEvent> batch_;
  std::size_t head_ = 0;
  bool more_ = true;
  std::optional<std::size_t> head_device_;      // The router has chosen it already.
  std::optional<std::vector<PlaceId>> wanted_;  // So has the policy, for an allocation that waits.
  std::vector<std::uint64_t> wanted_sizes_;     // Of its chunks.
  Time room_until_ = Time::max();
  bool room_changed_ = false;  // Something has left since it was looked for.

  Time now_{0};
  std::uint32_t allocations_ = 0;
  std::map<ChunkId, std::pair<PlaceId, Time>> came_from_;  // Of chunks that have moved.
  std::vector<ReplayTenant*> tenants_;                     // In the report, by tag.
  std::vector<double> carried_;                            // By link, until the last access ended.
  ReplayWindows windows_;
  ReplayReport report_;
};

}  // namespace vma
