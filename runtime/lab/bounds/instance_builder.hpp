#pragma once

#include "lab/bounds/placement_instance.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/routing/router.hpp"
#include "lab/trace/trace_audit.hpp"
#include "lab/trace/trace_source.hpp"

#include <vma/error.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace vma {

/// Divides a trace into blocks, given how late its accesses may begin. A device begins its accesses
/// in order, and at most `late_max` of them wait: an access has certainly begun when that many more
/// have arrived. A block ends when all accesses from before it have begun, or when a rarely used
/// device has delayed it for too long.
class TraceBlocks {
 public:
  TraceBlocks(std::size_t devices, std::size_t late_max);

  /// The device's next access has arrived.
  void came(std::size_t device);
  /// The block of accesses that arrive now.
  std::uint32_t now() const noexcept {
    return static_cast<std::uint32_t>(stretches_ / block_stretches_);
  }
  /// Doubles the length of blocks; merges pairs of earlier ones.
  void halve() { block_stretches_ *= 2; }

 private:
  struct Device {
    std::uint64_t came = 0, before = 0;  // Number of accesses; of those before this stretch.
    bool awaited = false;
  };
  void begin_stretch();

  const std::size_t late_max_;
  const std::uint64_t stretch_max_;
  std::vector<Device> devices_;
  std::size_t missing_ = 0;       // Devices that this stretch waits for.
  std::uint64_t in_stretch_ = 0;  // Number of accesses.
  std::uint64_t stretches_ = 0, block_stretches_ = 1;
};

struct InstanceOptions {
  std::uint64_t chunk_bytes = std::uint64_t{32} << 20;  ///< As in the replay.
  /// Accesses that may wait at one device, as in the replay. 0: each begins when it arrives. This
  /// gives tighter bounds, but they do not hold for replays in which devices fall behind.
  std::size_t late_max = 64;
  std::size_t uses_max = 1'000'000;    ///< With more uses, blocks become longer.
  std::size_t chunks_max = 4'000'000;  ///< More chunks are an error.
};

/// Builds the `PlacementInstance` of a trace on a machine. Splits objects into chunks, and accesses
/// into uses, as `Replay` does. A chunk begins where the trace says if there is certainly room. All
/// others may begin anywhere, as may chunks that the trace itself moves. Not thread-safe; one
/// object builds one instance.
/// One owner: each event changes chunks, uses and costs of the one instance together.
class InstanceBuilder {
 public:
  InstanceBuilder(const ReplayMachine& machine, const InstanceOptions& options,
                  std::unique_ptr<Router> router);

  /// Throws: as the source; Error{invalid_argument} for a trace without events, and for an event
  /// that contradicts earlier ones; Error{unsupported} if there is no bound: the router depends on
  /// the replay, or a limit is exceeded.
  PlacementInstance build(TraceSource& source);

 private:
  struct Object {
    std::uint64_t bytes = 0, chunk_bytes = 0;
    std::uint32_t first = 0, chunks = 0;  // Its range of chunks in the instance.
    bool placed = false, used = false;
    Time born{0};
    std::uint64_t bytes_of(std::uint32_t slot) const {
      return slot + 1 < chunks ? chunk_bytes : bytes - chunk_bytes * (chunks - 1);
    }
  };
  /// An access that may not have begun yet.
  struct Waiting {
    Object object;
    std::uint64_t offset = 0, bytes = 0;
    double passes = 1, work_s = 0;
    std::uint32_t block = 0;
    std::uint64_t event = 0;
  };
  /// The chunk that stands for a chunk of an object after the trace moved it.
  struct Anew {
    std::uint32_t chunk = 0;
    std::uint64_t event = 0;  // The last event that moved it.
  };

  void take(const TraceEvent& event);
  void take_access(const TraceEvent& event);
  void place_range(const TraceEvent& event);
  void add_chunks(Object& object, std::uint64_t begin_places);
  void require_room_for(std::uint64_t chunks) const;
  void add_chunk(const PlacementChunk& chunk);
  void begin_anew(std::uint32_t chunk);
  Anew now_of(std::uint32_t chunk) const;
  void end_chunks(const Object& object);
  std::uint64_t place_bit(TracePlace at) const;
  std::size_t route(const TraceEvent& event);
  void begun(std::size_t device, const Waiting& access);
  void add_use(const PlacementUse& use, double bytes, double work_s, bool floor_only);
  void drop_forgotten();
  void thin_out();
  void arrange();
  void halve();
  void let_begin_anywhere();
  [[noreturn]] static void refuse(ErrorKind kind, const std::string& why);

  const ReplayMachine& machine_;
  const InstanceOptions options_;
  std::optional<ReadAhead> source_;
  TaskRouter router_;
  std::size_t uses_limit_;  // Number of uses at which blocks become longer.
  TraceAudit audit_;
  TraceBlocks blocks_;
  std::vector<std::deque<Waiting>> waiting_;  // Per device, in order of arrival.
  std::vector<DeviceLoad> loads_;
  std::unordered_map<std::uint64_t, Object> live_;
  std::unordered_map<std::uint32_t, Anew> anew_;        // Keyed by the original chunk.
  std::map<std::uint64_t, std::uint32_t> move_tables_;  // Keyed by size.
  double bytes_ = 0;                                    // Of all chunks so far.
  std::vector<std::size_t> last_use_;                   // Per chunk: its use that was added last.
  std::vector<double> costs_;
  PlacementInstance instance_;
};

}  // namespace vma
