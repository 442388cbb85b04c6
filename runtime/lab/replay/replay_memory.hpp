#pragma once

#include "lab/replay/replay_account.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_moves.hpp"
#include "lab/replay/replay_options.hpp"
#include "lab/replay/replay_scheduler.hpp"
#include "lab/trace/trace_event.hpp"

#include <vma/snapshot.hpp>

#include <boost/unordered/unordered_flat_map.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace vma {

/// The objects of the trace and their chunks. A freed object stays until nothing uses it any more,
/// like memory whose free waits for earlier work. Not thread-safe.
class ReplayObjects {
 public:
  using Index = std::uint32_t;
  static constexpr Index none = UINT32_MAX;

  struct Object {
    std::uint64_t number = 0, bytes = 0, chunk_bytes = 0;
    ChunkId first{};
    std::uint32_t chunks = 0;  ///< 0: there was no room for it, or it does not exist.
    std::uint32_t pins = 0;    ///< Waiting and running accesses, and moves that have begun.
    TagId tag{};
    Time made{0};  ///< By the trace's times.
    bool freed = false;
    bool pending = false;       ///< Its allocation at a named place waits for room.
    bool placed = false;        ///< Its placement is decided, successfully or not.
    bool vacates = false;       ///< Gives up its memory when it has no pins.
    bool shared = false;        ///< Several requests have accessed it.
    std::uint64_t request = 0;  ///< The first one that has written it.

    std::uint64_t bytes_of(std::size_t slot) const {
      return slot + 1 < chunks ? chunk_bytes : bytes - chunk_bytes * (chunks - 1);
    }
  };

  Index add(const Object& object);
  /// Returns the live object with this number, or `none`.
  Index find(std::uint64_t number) const;
  Object& at(Index index) { return objects_[index]; }
  const Object& at(Index index) const { return objects_[index]; }
  /// Frees its number for other objects. Requires: the object is live.
  void free(Index index);
  /// Requires: the object was freed and has no pins.
  void remove(Index index);
  void belongs(ChunkId chunk, Index object);
  /// Requires: the chunk belongs to an object that has not been removed.
  Index owner(ChunkId chunk) const { return owners_[vma::index(chunk)]; }
  std::size_t size() const noexcept { return live_.size(); }

 private:
  std::vector<Object> objects_;
  std::vector<Index> unused_;
  boost::unordered_flat_map<std::uint64_t, Index> live_;
  std::vector<Index> owners_;  // Indexed by chunk.
};

/// The objects of the trace in the machine's memory: their chunks, the places of these, and the
/// requests that wait for room. Starts the moves that the scheduler accepted, and reports to it
/// when they end. Not thread-safe.
/// One owner: a request, the search for its room and the moves that make it are one step.
class ReplayMemory {
 public:
  using Index = ReplayObjects::Index;

  /// Requires: all references outlive it. `now` is the replay's time.
  ReplayMemory(const ReplayMachine& machine, const ReplayOptions& options,
               ReplayScheduler& scheduler, ReplayMoves& moves, ReplayAccount& account,
               const Time& now);

  /// Requires: the tags outlive it.
  void begin(const TraceTags& tags) noexcept { tags_ = &tags; }

  // Events of the trace. All throw Error{invalid_argument} for an event that contradicts earlier
  // ones, and return false for one that has to wait.
  bool allocate(const TraceEvent& event);
  /// Places a range where the trace says.
  bool place(const TraceEvent& event);
  bool free(const TraceEvent& event);
  void set_tag(const TraceEvent& event);
  /// Passes a hint for a use by `device` on to the scheduler, for each chunk of its range. Returns
  /// false if it is of memory that has been freed or that has no place yet.
  bool hint(const TraceEvent& event, PlaceId device);
  /// Returns the object that the event names.
  Index require(const TraceEvent& event) const;
  /// Places the object's chunks where the policy wants them, given that `device` makes its first
  /// access. Requires: the object has not been placed.
  bool place_at_first_touch(Index object, PlaceId device);

  const ReplayObjects::Object& object(Index index) const { return objects_.at(index); }
  /// A pinned object outlives its free, until there have been as many `unpin` as `pin`.
  void pin(Index index) { ++objects_.at(index).pins; }
  void unpin(Index index);

  /// Whether an allocation or a first touch waits for room; `room_until` limits the wait. Until it
  /// has room, others return false at once.
  bool waits_for_room() const noexcept { return wanted_.has_value(); }
  Time room_until() const noexcept { return room_until_; }
  /// Whether what waits for room may have it now.
  bool may_have_room() const noexcept { return !wanted_ || room_changed_ || now_ >= room_until_; }

  // Memory of requests. Objects by their numbers; those that do not exist have none.
  /// A task of the request accesses the object, which exists.
  void used_by(std::uint64_t object, std::uint64_t request, bool writes);
  /// Whether the object has memory that only this request uses.
  bool held_by(std::uint64_t object, std::uint64_t request) const;
  /// Takes the object's memory once nothing uses it any more; the next access places it anew.
  /// Requires: `held_by`.
  void vacate(std::uint64_t object);
  /// Whether objects are giving up memory, which moves in progress still use.
  bool vacates() const noexcept { return vacating_ > 0; }
  bool exists(std::uint64_t object) const { return objects_.find(object) != ReplayObjects::none; }
  /// Whether some of the accesses would be the first to their object since it has no memory.
  bool has_first_touch(std::span<const TraceEvent> accesses) const;
  /// Whether those of the objects that have no memory would fit: into the device's HBM, or into all
  /// memory that it can reach.
  bool fits(std::span<const std::uint64_t> objects, PlaceId device, AdmissionMemory memory) const;
  /// Counts what may have made room.
  std::uint64_t changes() const noexcept { return changes_; }

  void start_moves();
  /// `stall`: of the move's gate. Returns the object that the chunk belongs to.
  Index end_move(const ReplayMoves::Ended& ended, Time stall);

 private:
  bool give_chunks(Index index, std::optional<PlaceId> named, PlaceId device);
  bool find_room();
  void remove_chunks(const ReplayObjects::Object& object);
  void make_room();
  void spill();
  std::optional<PlaceId> place_of(TracePlace at) const;

  const ReplayMachine& machine_;
  const ReplayOptions& options_;
  ReplayScheduler& scheduler_;
  ReplayMoves& moves_;
  ReplayAccount& account_;
  const Time& now_;
  const TraceTags* tags_ = nullptr;
  ReplayObjects objects_;
  std::uint32_t allocations_ = 0;
  // The chunks that the trace has placed, by slot, of objects that have no place yet.
  std::map<Index, std::map<std::uint64_t, PlaceId>> named_parts_;

  // The allocation or first touch that waits for room; at most one.
  std::optional<std::vector<PlaceId>> wanted_;  // Per chunk; empty: it fits nowhere.
  Index wanted_for_ = ReplayObjects::none;
  std::vector<std::uint64_t> wanted_sizes_;
  Time room_until_ = Time::max();
  bool room_changed_ = false;  // Something was freed since the last search for room.
  std::uint64_t changes_ = 0;
  std::size_t vacating_ = 0;  // Objects.
};

}  // namespace vma
