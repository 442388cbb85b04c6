#pragma once

#include "base/mutex.hpp"
#include "machine/topology.hpp"
#include "memory/chunk.hpp"
#include "memory/hook_list.hpp"
#include "memory/importer_list.hpp"

#include <vma/migration.hpp>
#include <vma/options.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vma {

/// How an allocation is cut: equal slots and a tail that may be shorter. All in bytes.
struct Geometry {
  std::uint64_t chunk_bytes = 0;
  std::uint64_t tail_bytes = 0;  ///< Of the last slot; equal to `chunk_bytes` if all are.
  std::size_t slots = 0;

  std::uint64_t size_bytes() const { return (slots - 1) * chunk_bytes + tail_bytes; }
  std::uint64_t slot_bytes(std::size_t slot) const {
    return slot + 1 == slots ? tail_bytes : chunk_bytes;
  }
  friend auto operator<=>(const Geometry&, const Geometry&) = default;
};

/// What a user's pointer names: a reservation whose slots each show one chunk, or none while its
/// contents are dropped.
///
/// Callers hold `operations()` while they switch a slot, read, write or pin it; a free releases it
/// before it waits for work. Slots change under it, and after a free; any thread may call
/// `extents()` at any time. To move or free the allocation, a thread first takes a `MoveClaim`. I1:
/// `begin()` never changes.
///
/// Once freed it stays `being_freed` for ever: the cache hands its memory to another Allocation, so
/// a caller that still holds this one cannot mistake it for the next.
/// One owner: slots, locks and claims of what one pointer names, which a free ends together.
class Allocation : public std::enable_shared_from_this<Allocation> {
 public:
  /// Takes an empty reservation of the geometry's size. Shows nothing yet.
  Allocation(Driver& driver, Ledger& ledger, Reservation reservation, const Geometry& geometry);
  /// Takes over the addresses of a freed allocation and what its slots show; the freed one has no
  /// slots afterwards.
  Allocation(Allocation&& freed) noexcept;
  /// Unmaps what is shown, and releases the chunks.
  ~Allocation();

  Address begin() const noexcept { return reservation_.begin(); }
  const Geometry& geometry() const noexcept { return geometry_; }
  std::uint64_t size_bytes() const noexcept { return geometry_.size_bytes(); }
  Address slot_begin(std::size_t slot) const { return begin() + slot * geometry_.chunk_bytes; }

  Mutex& operations() noexcept { return operations_; }

  /// Maps the chunks to the slots in order, and grants each run of chunks at one place in one call
  /// to all GPUs that reach the place. Throws: what the driver throws; then nothing is shown and
  /// `chunks` holds them all again.
  void show_all(std::vector<Chunk>& chunks, const Topology& topology);
  /// Unmaps a slot and returns its chunk; empty if it has none. If the driver refuses to unmap the
  /// slot, its chunk is not returned: its memory lives on behind the mapping, and is counted as
  /// leaked and unclaimed.
  Chunk take_out(std::size_t slot) noexcept;
  /// Gives the addresses back, even if callers still hold this object. Requires: every slot was
  /// taken out.
  void unreserve() noexcept { reservation_ = Reservation(); }

  const Chunk& chunk(std::size_t slot) const { return slots_[slot].chunk; }
  /// False for a dropped slot, and for any slot of a freed allocation.
  bool has_chunk(std::size_t slot) const;
  /// Where the bytes of the slot can be read and written while nothing switches it: through its
  /// chunk's staging mapping, or through the slot. None if the slot is dark and its chunk has no
  /// such mapping.
  Address bytes_at(std::size_t slot) const;
  /// On a freed allocation this call and the next are allowed, but their answers mean nothing.
  Place place(std::size_t slot) const;
  std::uint64_t generation(std::size_t slot) const;
  /// The slot shows `target` from now on; returns the chunk that it showed. A new generation.
  Chunk replace(std::size_t slot, Chunk target);
  /// Unmaps a slot and returns its chunk with its bytes; `home` keeps answering the place of that
  /// chunk. Requires: the caller holds `operations()`, and no work that may use the slot is
  /// running. Throws: what the driver throws; then nothing has changed.
  Chunk drop(std::size_t slot);
  /// Dropped slots in a row show the chunks, after `grant` has given all GPUs that reach them
  /// access to the range. New generations. Requires: the caller holds `operations()`. Throws: what
  /// the driver and `grant` throw; then all slots are still dropped and the chunks still the
  /// caller's. A slot whose chunk is `busy()`, or that the driver refuses to unmap, takes its chunk
  /// and is poisoned.
  using Grant = std::function<void(Address begin, std::uint64_t size_bytes)>;
  void restore(std::size_t first, std::span<Chunk> chunks, const Grant& grant);
  /// Where the program put the slot's bytes, by `alloc` or by a move that it asked for. The runtime
  /// may have moved them since.
  Place wanted(std::size_t slot) const;
  void note_wanted(std::size_t slot, Place at);
  /// Calls `note_wanted` for those of the slots that are at `at`.
  void note_wanted_there(std::size_t first, std::size_t end, Place at) noexcept;
  bool dropped(std::size_t slot) const;
  bool any_dropped(std::size_t first, std::size_t end) const;
  std::uint64_t dropped_bytes() const;
  /// Marks the slot as unusable for ever: its chunk still holds the bytes (I4). `still_mapped`: the
  /// driver kept a mapping there.
  void poison(std::size_t slot, bool still_mapped);

  std::vector<Extent> extents() const;
  bool at_one_place() const;
  /// Whether every slot has a chunk that was created with these types.
  bool created_with(const ExportTypes& types) const;
  bool poisoned() const noexcept { return poisoned_.load(); }
  /// Whether an equal allocation may take it over as it is: all slots idle, at one place, and
  /// granted to all readers with write access.
  bool reusable() const;

  /// Used by MoveClaim. Blocks: while another thread has the claim. Requires: the caller does not
  /// hold `operations()`.
  void begin_move();
  bool try_begin_move();
  void end_move() noexcept;
  /// Whether any thread has the claim at this moment.
  bool moving();

  /// Called while a vma::Pin lives. Requires: the caller holds `operations()`, and checks
  /// `being_freed` after `pin`: a free sets `being_freed` first and checks for pins afterwards.
  void pin() noexcept { ++pins; }
  void unpin() noexcept;
  /// Whether the allocation may move: no view, no pin, no importer, no export without hooks, and
  /// `movable`.
  /// While the caller holds `operations()`, true stays true.
  bool may_move() const { return why_pinned().empty(); }
  /// Why the allocation may not move, as words that follow "the allocation at ..."; empty if it
  /// may.
  std::string why_pinned() const;
  /// The same without regard to other processes: why its users here keep it in place. The process
  /// that exports it moves it nevertheless if those that have imported it follow.
  std::string why_kept() const;

  /// What users may do with it: `read_write`, or `read` while a ReadOnly lives.
  Access access() const noexcept { return access_.load(); }
  bool read_only() const noexcept { return access() == Access::read; }
  /// All accessors that reach a slot at `at`, with their current rights.
  std::vector<Accessor> accessors(Place at, const Topology& topology) const;
  /// True makes every slot read-only for every reader, until each such call is matched by one with
  /// false. Requires: the caller holds `operations()`. Throws: what the driver throws; after a
  /// failed true, all may write again; after a failed false, some slots may stay read-only until
  /// they move.
  void set_read_only(bool read_only, const Topology& topology);
  /// Another process may write to the memory from now on, whatever rights the slots have. Requires:
  /// the caller holds `operations()`.
  void share() noexcept;
  /// Rises whenever writing becomes allowed. While it is unchanged and `read_only()` is true, no
  /// write has happened.
  std::uint64_t writable_epoch() const noexcept { return writable_epoch_.load(); }

  /// The CPU's access to an allocation with `CpuAccess::fault`. It is a shortcut: whatever must not
  /// run beside a write of the CPU revokes it, and the next access of the CPU faults and brings it
  /// back.
  ///
  /// Grants the slots of the range that show memory of a host node, with `access()`. Requires: the
  /// move claim, or that no other thread knows the allocation. Throws: what the driver throws; then
  /// some of them may be granted.
  void grant_cpu(std::size_t first, std::size_t end);
  /// The same, where a failure costs only that the CPU faults once more. Does nothing for other
  /// allocations.
  void offer_cpu(std::size_t first, std::size_t end) noexcept;
  /// Ends the access to the slots of the range, except those at `stay_at`. Once it has returned, no
  /// write of the CPU reaches them. Throws: what the driver throws; then some may still be granted.
  void revoke_cpu(std::size_t first, std::size_t end, std::optional<Place> stay_at = {});
  /// The most that the CPU may do there: after a failed grant, it may have the access or not.
  Access cpu_access(std::size_t slot) const;
  /// Of the last grant or revocation there; each has another number in the process. 0: none yet.
  std::uint64_t cpu_change(std::size_t slot) const;

  HookList& hooks() noexcept { return hooks_; }

  /// The processes that use its memory; it moves only if they follow. One is added under
  /// `operations()`.
  ImporterList& importers() noexcept { return importers_; }
  const ImporterList& importers() const noexcept { return importers_; }
  /// Whether its memory belongs to another process.
  bool imported() const noexcept { return !imported_from.empty(); }

  /// The share of its bytes that recent live copies found changed, as reported by its moves;
  /// guarded by the claim.
  double dirtiness = 0;
  /// What the CPU's last fault fetched; guarded by the claim.
  struct Fetched {
    std::size_t end = SIZE_MAX;  ///< The slot behind it.
    std::size_t slots = 0;
  } fetched{};

  // What the user asked for; constant while the pointer is valid.
  std::string tag;
  std::string site;  // As given to `alloc`.
  bool movable = true;
  bool shared_atomics = false;
  CpuAccess cpu = CpuAccess::view;
  /// The process that exports it, such as "process 4711"; empty for memory of this process.
  std::string imported_from;
  /// What has to live as long as the import; released after the memory, whoever still holds this
  /// object.
  std::shared_ptr<const void> import_lease;
  /// How its chunks have to be able to leave the process, whatever the default; guarded by the
  /// claim once others know the allocation.
  ExportTypes export_needs{};
  /// The GPUs that use it, if `alloc` was told; empty otherwise.
  std::vector<DeviceId> readers;

  /// Rises with each allocation of the runtime, so that ages can be compared: clocks may stand
  /// still between two. Constant while the pointer is valid.
  std::uint64_t sequence = 0;
  /// When it was allocated, or when a migration of it last ended.
  std::atomic<TimePoint> placed_at{TimePoint(0)};
  /// Set by the thread that frees it: a running move then ends at the next chunk border.
  std::atomic<bool> being_freed{false};
  /// HostViews that keep it in place.
  std::atomic<int> views{0};
  /// Pins that keep it in place.
  std::atomic<int> pins{0};
  /// ExportedAllocations: while there is one, it cannot be freed.
  std::atomic<int> exports{0};
  /// A handle to its physical memory was exported by the program: it moves only if hooks follow.
  std::atomic<bool> exported{false};

 private:
  struct Slot {
    Chunk chunk;
    std::uint64_t generation = 0;
    bool mapped = false;
    bool dark = false;             // For ever, even if the driver kept a mapping.
    Access cpu = Access::none;     // The most that the CPU may have by `grant_cpu`.
    bool cpu_sure = false;         // Whether it has that.
    std::uint64_t cpu_change = 0;  // Of `cpu`.
    Place wanted;                  // Where the program wants the slot.
    std::optional<Place>
        dropped_from;  // If set, it has no chunk and shows nothing until `restore`.
    Place at() const { return dropped_from.value_or(chunk.at()); }
  };

  static void take_in(Slot& shown, Chunk& chunk) noexcept {
    shown.chunk = std::move(chunk);
    shown.chunk.mark_shown();
    shown.mapped = true;
    shown.dropped_from.reset();
    ++shown.generation;
  }
  bool hide_again(std::size_t slot) noexcept;
  void hide_again(std::size_t first, std::span<Chunk> chunks) noexcept;
  void keep_behind(std::size_t slot, const char* reason) noexcept VMART_REQUIRES(slots_mutex_);
  std::exception_ptr grant_slots(const Topology& topology) noexcept VMART_REQUIRES(access_mutex_);

  /// Slots that show memory of one place.
  struct Run {
    std::size_t first = 0, end = 0;  // None if equal.
    Place at;
  };
  template <typename Wanted>
  Run next_run(std::size_t first, std::size_t end, Wanted&& wanted) const;
  void note_cpu(const Run& run, Access access, bool sure) noexcept;
  void set_cpu(const Run& run, Access access) VMART_REQUIRES(access_mutex_);
  void end_cpu(std::size_t first, std::size_t end, std::optional<Place> stay_at)
      VMART_REQUIRES(access_mutex_);
  std::uint64_t bytes_of(const Run& run) const;

  Driver& driver_;
  Ledger& ledger_;
  Reservation reservation_;
  const Geometry geometry_;
  Mutex operations_;
  mutable Mutex slots_mutex_;  // For `extents`; writers also hold `operations_`.
  std::vector<Slot> slots_;
  std::atomic<bool> poisoned_{false};

  mutable Mutex access_mutex_;  // Held while rights of slots change; taken before `slots_mutex_`.
  int read_only_scopes_ VMART_GUARDED_BY(access_mutex_) = 0;
  std::atomic<bool> access_torn_{false};  // Some slot may grant less than `access_` says.
  std::atomic<Access> access_{Access::read_write};
  std::atomic<std::uint64_t> writable_epoch_{0};

  Mutex move_mutex_;  // Held briefly; no other lock is taken under it.
  Condition move_ended_;
  bool moving_ VMART_GUARDED_BY(move_mutex_) = false;
  HookList hooks_;
  ImporterList importers_;
};

}  // namespace vma
