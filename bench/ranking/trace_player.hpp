#pragma once

#include "bench/ranking/device_player.hpp"
#include "lab/replay/router.hpp"
#include "lab/trace/trace_source.hpp"

#include <vma/runtime.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vma {

struct PlayOptions {
  std::uint64_t chunk_bytes = std::uint64_t{32} << 20;    ///< Where the trace does not say.
  std::uint64_t launch_bytes = std::uint64_t{256} << 20;  ///< What reads more is cut.
  /// Capacity of each GPU besides what players and the runtime hold of it; 0: all of it.
  std::uint64_t hbm_bytes = 0;
  /// What the trace has alive at most: what of it such GPUs do not hold is made at the host before.
  std::uint64_t peak_bytes = 0;
};

struct PlayReport {
  double seconds = 0;  ///< From the first access to the end of the last.
  std::uint64_t events = 0, allocations = 0;
  std::uint64_t spilled = 0;  ///< Allocations that did not find room where they should go.
  double alloc_s = 0;         ///< In calls that allocate, of the time above.
  std::vector<DeviceTally> devices;
  std::vector<std::pair<double, std::string>> marks;  ///< When the trace came to them.
};

/// What `Replay` is to the lab, with pacing `at_once`, this is to a machine: objects of the trace
/// are memory of the runtime, placed as the trace says, or at the first access as the policy says;
/// accesses are kernels that read. A device does them in their order, as fast as memory gives them:
/// times and durations of the trace do not count. 64 accesses wait at a device; then the trace
/// waits. No event is left out. One trace; one thread, and one more a GPU.
class TracePlayer {
 public:
  /// Throws: Error{invalid_argument} for a router whose choices depend on more than the trace.
  TracePlayer(Runtime& runtime, const PlayOptions& options, const std::string& router);
  ~TracePlayer();

  /// Throws: what the source and the runtime throw; Error{invalid_argument} for an event that does
  /// not fit those before it; {out_of_memory} for an object that has room nowhere.
  PlayReport play(TraceSource& source);

 private:
  struct Object {
    std::uint64_t bytes = 0, chunk_bytes = 0;
    std::string tag;
    std::shared_ptr<PlayedMemory> memory;  // Null until it is used, or placed.
  };
  void rehearse_moves();
  void cap(std::uint64_t hbm_bytes);
  void make_at_host();
  void take(const TraceEvent& event, const TraceTags& tags);
  void allocate(const TraceEvent& event, const TraceTags& tags);
  void access(const TraceEvent& event);
  void place(const TraceEvent& event);
  void free(const TraceEvent& event);
  Object& live(const TraceEvent& event);
  /// At the place, or as the policy says for a device.
  void give_memory(Object& object, Location place, bool as_policy_says);
  void* try_alloc(const Object& object, Location place, bool as_policy_says);
  bool has(Location place) const;
  double elapsed() const;

  Runtime& runtime_;
  const PlayOptions options_;
  TaskRouter router_;
  std::vector<std::unique_ptr<DevicePlayer>> devices_;
  const std::vector<DeviceLoad> loads_;  // None of the routers that are allowed looks at them.
  std::unordered_map<std::uint64_t, Object> objects_;
  std::chrono::steady_clock::time_point begin_;
  bool begun_ = false;
  PlayReport report_;
};

}  // namespace vma
