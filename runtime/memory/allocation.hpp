#pragma once

#include "base/mutex.hpp"
#include "machine/topology.hpp"
#include "memory/chunk.hpp"
#include "memory/hook_list.hpp"
#include "memory/reservation.hpp"

#include <vma/migration.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
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
/// `operations()` is held by whoever switches a slot, reads, writes or pins it, for as long as that
/// takes; a free lets go of it before it waits for work. Slots change under it, and after a free;
/// `extents()` may be asked by anyone at any time. Who moves or frees it has a `MoveClaim` besides,
/// taken first. I1: `begin()` never changes.
///
/// Once freed it stays `being_freed` for ever: the cache hands its memory to another Allocation, so
/// who still holds this one cannot take the next for it.
class Allocation : public std::enable_shared_from_this<Allocation> {
 public:
  /// Takes an empty reservation of the geometry's size. Shows nothing yet.
  Allocation(Driver& driver, Ledger& ledger, Reservation reservation, const Geometry& geometry);
  /// Takes over the addresses of a freed one and what its slots show; that one has no slots then.
  Allocation(Allocation&& freed) noexcept;
  /// Unmaps what is shown, and releases the chunks.
  ~Allocation();

  Address begin() const noexcept { return reservation_.begin(); }
  const Geometry& geometry() const noexcept { return geometry_; }
  std::uint64_t size_bytes() const noexcept { return geometry_.size_bytes(); }
  Address slot_begin(std::size_t slot) const { return begin() + slot * geometry_.chunk_bytes; }

  Mutex& operations() noexcept { return operations_; }

  /// Maps the chunks, one a slot in order, and grants each run at one place to who can reach that,
  /// in one call. Throws: what the driver throws; then nothing is shown and `chunks` holds them all
  /// again.
  void show_all(std::vector<Chunk>& chunks, const Topology& topology);
  /// Unmaps a slot and gives its chunk up; empty if it has none. The chunk of a slot that the
  /// driver will not unmap is not given up: its memory lives on behind the mapping, and is counted
  /// as leaked and unclaimed.
  Chunk take_out(std::size_t slot) noexcept;
  /// That of every slot, those that have a chunk.
  std::vector<Chunk> take_apart();
  /// Gives the addresses back, whoever still holds this. Requires: every slot was taken out.
  void unreserve() noexcept { reservation_ = Reservation(); }

  const Chunk& chunk(std::size_t slot) const { return slots_[slot].chunk; }
  /// A freed one may be asked this and the next; its answer means nothing.
  Location home(std::size_t slot) const;
  std::uint64_t generation(std::size_t slot) const;
  /// The slot shows `target` from now on; returns the chunk that it showed. A new generation.
  Chunk replace(std::size_t slot, Chunk target);
  /// Unmaps a slot and gives its chunk up with its bytes; `home` is where it lay from now on.
  /// Requires: the caller holds `operations()`, and nothing that may use it runs. Throws: what the
  /// driver throws; then nothing has changed.
  Chunk drop(std::size_t slot);
  /// A dropped slot shows the chunk, granted to who can reach it. A new generation. Requires: the
  /// caller holds `operations()`. Throws: what the driver throws; then it is dropped still and the
  /// chunk the caller's, or, where the driver does not let go of it again, poisoned with it.
  void restore(std::size_t slot, Chunk& chunk, const Topology& topology);
  /// Where the program has put the slot's bytes, by `alloc` or by a move that it asked for. The
  /// runtime may have moved them elsewhere since.
  Location wanted(std::size_t slot) const;
  void note_wanted(std::size_t slot, Location at);
  /// The same of those of the slots that lie there.
  void note_wanted_there(std::size_t first, std::size_t end, Location at) noexcept;
  bool dropped(std::size_t slot) const;
  bool any_dropped(std::size_t first, std::size_t end) const;
  std::uint64_t dropped_bytes() const;
  /// The slot shows nothing that can be used any more, for ever: its chunk holds the bytes (I4).
  /// `still_mapped`: the driver kept some mapping there.
  void poison(std::size_t slot, bool still_mapped);

  std::vector<Extent> extents() const;
  bool at_one_place() const;
  bool poisoned() const noexcept { return poisoned_.load(); }
  /// Whether an equal allocation may take it over as it stands: all idle and at one place, every
  /// slot shown to all its readers with the right to write.
  bool reusable() const;

  /// What a MoveClaim does. Blocks: until nobody else has the claim. Requires: the caller does not
  /// hold `operations()`.
  void begin_move();
  bool try_begin_move();
  void end_move() noexcept;
  /// Whether somebody has the claim at this moment.
  bool moving();

  /// For as long as a vma::Pin lives. Requires: the caller holds `operations()`, and looks at
  /// `being_freed` after `pin`: a free looks for pins once it has set that.
  void pin() noexcept { ++pins; }
  void unpin() noexcept;
  /// Whether nothing keeps it where it is: no view, no pin, no export without hooks, `movable`.
  /// Under `operations()` it is true until that is let go.
  bool may_move() const { return why_pinned().empty(); }
  /// What keeps it where it is, to follow "the allocation at ..."; empty if nothing does.
  std::string why_pinned() const;

  /// What users may do with it: `read_write`, or `read` while a ReadOnly lives.
  Access access() const noexcept { return access_.load(); }
  bool read_only() const noexcept { return access() == Access::read; }
  /// Whoever can reach a slot of it that shows memory at `at`, with what they may do there now.
  std::vector<Accessor> accessors(Location at, const Topology& topology) const;
  /// True takes the right to write away from every reader of every slot, until as many calls with
  /// false have come. Requires: the caller holds `operations()`. Throws: what the driver throws; of
  /// true, all may write then; of false, some slots may still be read-only until they move.
  void set_read_only(bool read_only, const Topology& topology);
  /// Rises whenever writing becomes allowed. While it stays and `read_only()` does, nobody
  /// has written.
  std::uint64_t writable_epoch() const noexcept { return writable_epoch_.load(); }

  HookList& hooks() noexcept { return hooks_; }

  /// The share of its bytes that live copies lately found changed, as its moves tell; under the
  /// claim.
  double dirtiness = 0;

  // What the user asked for; constant while the pointer is valid.
  std::string tag;
  bool movable = true;
  /// The GPUs that use it, if `alloc` was told; empty otherwise.
  std::vector<DeviceId> readers;

  /// When it was made, or a migration of it last ended.
  std::atomic<TimePoint> placed_at{TimePoint(0)};
  /// Set by the thread that frees it: a move ends at the next chunk border.
  std::atomic<bool> being_freed{false};
  /// HostViews that keep it where it is.
  std::atomic<int> views{0};
  /// Pins, likewise.
  std::atomic<int> pins{0};
  /// Something names its physical memory: hooks must follow, or it stays.
  std::atomic<bool> exported{false};

 private:
  struct Slot {
    Chunk chunk;
    std::uint64_t generation = 0;
    bool mapped = false;
    bool dark = false;                     // For ever, though the driver may have kept a mapping.
    Location wanted;                       // Of the program.
    std::optional<Location> dropped_from;  // It has no chunk and shows nothing until `restore`.
    Location at() const { return dropped_from.value_or(chunk.at()); }
  };

  bool hide_again(std::size_t slot) noexcept;
  void keep_behind(std::size_t slot, const char* reason) noexcept VMART_REQUIRES(slots_mutex_);
  std::exception_ptr grant_slots(const Topology& topology) noexcept VMART_REQUIRES(access_mutex_);

  Driver& driver_;
  Ledger& ledger_;
  Reservation reservation_;
  const Geometry geometry_;
  Mutex operations_;
  mutable Mutex slots_mutex_;  // For `extents`; writers hold `operations_` too.
  std::vector<Slot> slots_;
  std::atomic<bool> poisoned_{false};

  mutable Mutex access_mutex_;  // Held while rights of slots change; before `slots_mutex_`.
  int read_only_scopes_ VMART_GUARDED_BY(access_mutex_) = 0;
  std::atomic<bool> access_torn_{false};  // Some slot may grant less than `access_` says.
  std::atomic<Access> access_{Access::read_write};
  std::atomic<std::uint64_t> writable_epoch_{0};

  Mutex move_mutex_;  // Short; takes none inside.
  Condition move_ended_;
  bool moving_ VMART_GUARDED_BY(move_mutex_) = false;
  HookList hooks_;
};

}  // namespace vma
