#pragma once

#include "bench/ranking/device_player.hpp"
#include "bench/ranking/task_ends.hpp"
#include "lab/replay/replay_tasks.hpp"
#include "lab/routing/router.hpp"
#include "lab/trace/trace_source.hpp"

#include <vma/runtime.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vma {

struct PlayOptions {
  /// Used where the trace gives no chunk size.
  std::uint64_t chunk_bytes = std::uint64_t{32} << 20;
  std::uint64_t launch_bytes = std::uint64_t{256} << 20;  ///< Larger accesses are split.
  /// Capacity of each GPU for objects, in addition to what players and the runtime use; 0: no
  /// limit.
  std::uint64_t hbm_bytes = 0;
  /// Peak size of the trace's live objects. The part that does not fit into this HBM is allocated
  /// at the host in advance.
  std::uint64_t peak_bytes = 0;
};

struct PlayReport {
  double seconds = 0;  ///< From the first access to the end of the last.
  std::uint64_t events = 0, allocations = 0;
  std::uint64_t steps = 0;    ///< Of declared tasks: each repetition.
  std::uint64_t spilled = 0;  ///< Allocations that found no room where they should have gone.
  double alloc_s = 0;         ///< Part of the time above spent in calls that allocate.
  std::vector<DeviceTally> devices;
  std::vector<std::pair<double, std::string>> marks;  ///< When the trace reached them.
};

/// Does on a real machine what `Replay` does in the lab, with pacing `at_once`. Objects of the
/// trace are memory of the runtime, placed as the trace says, or at the first access as the policy
/// says. Accesses are kernels that read. A device performs them in order, as fast as memory allows:
/// the trace's times and durations are ignored. At most 64 accesses wait at a device; then the
/// trace waits. No event is left out.
///
/// Declared tasks are closed loops: their order and `ReplayTasks` say when each may begin, and its
/// accesses are launched then. What a task computes is time that passes: as in a replay, it neither
/// slows accesses nor holds up a gate.
///
/// Plays one trace; one thread, and one more per GPU.
class TracePlayer {
 public:
  /// Throws: Error{invalid_argument} if the router's choices depend on more than the trace.
  TracePlayer(Runtime& runtime, const PlayOptions& options, const std::string& router);
  ~TracePlayer();

  /// Throws: whatever the source and the runtime throw; Error{invalid_argument} if an event does
  /// not fit those before it; {out_of_memory} if there is no room for an object anywhere.
  PlayReport play(TraceSource& source);

 private:
  struct Object {
    std::uint64_t bytes = 0, chunk_bytes = 0;
    std::string tag;
    std::shared_ptr<PlayedMemory> memory;  // Null until it is used or placed.
  };
  void rehearse_moves();
  void cap(std::uint64_t hbm_bytes);
  void make_at_host();
  void take(const TraceEvent& event, const TraceTags& tags);
  void take_task(const TraceEvent& event);
  void carry_out(const TraceEvent& event, const TraceTags& tags);
  void allocate(const TraceEvent& event, const TraceTags& tags);
  void access(const TraceEvent& event);
  void give_hint(const TraceEvent& event, std::optional<ReplayTasks::Index> by);
  PlayedAccess hold(const TraceEvent& event, DevicePlayer& device);
  void begin();
  /// Completes the declaration in progress: its task gets its device, as in a replay.
  void close_declaration();
  /// Begins and carries out what has become possible. With `wait`, waits for something to end.
  void advance(const TraceTags& tags, bool wait);
  void start(ReplayTasks::Index task);
  void place(const TraceEvent& event);
  void free(const TraceEvent& event);
  Object& live(const TraceEvent& event);
  /// At the place or, if `as_policy_says`, where the policy places it for that device.
  void give_memory(Object& object, Place place, bool as_policy_says);
  void* try_alloc(const Object& object, Place place, bool as_policy_says);
  bool has(Place place) const;
  double elapsed() const;

  Runtime& runtime_;
  const PlayOptions options_;
  TaskRouter router_;
  std::vector<std::unique_ptr<DevicePlayer>> devices_;
  const std::vector<DeviceLoad> loads_;  // No permitted router reads these.
  std::unordered_map<std::uint64_t, Object> objects_;
  ReplayTasks tasks_{Time(0)};
  TaskEnds ends_;  // Declared after the devices, whose threads use it: see the destructor.
  std::vector<std::size_t> task_devices_;
  std::chrono::steady_clock::time_point begin_;
  bool begun_ = false;
  PlayReport report_;
};

}  // namespace vma
