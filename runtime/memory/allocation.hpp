#pragma once

#include "base/mutex.hpp"
#include "memory/chunk.hpp"
#include "memory/reservation.hpp"

#include <vma/migration.hpp>

#include <atomic>
#include <cstdint>
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

/// What a user's pointer names: a reservation whose slots each show one chunk.
///
/// `operations()` is held by whoever moves, reads, writes or frees it, for as long as that takes.
/// Slots change under it only; `extents()` may be asked by anyone at any time. I1: `begin()` never
/// changes.
class Allocation {
 public:
  /// Takes an empty reservation of the geometry's size. Shows nothing yet.
  Allocation(Driver& driver, Ledger& ledger, Reservation reservation, const Geometry& geometry);
  /// Unmaps what is shown; the chunks release themselves.
  ~Allocation();

  Address begin() const noexcept { return reservation_.begin(); }
  const Geometry& geometry() const noexcept { return geometry_; }
  std::uint64_t size_bytes() const noexcept { return geometry_.size_bytes(); }
  Address slot_begin(std::size_t slot) const { return begin() + slot * geometry_.chunk_bytes; }

  Mutex& operations() noexcept { return operations_; }

  /// Maps the chunks, one a slot in order, and grants them all in one call.
  /// Throws: what the driver throws; then nothing is shown and `chunks` holds them all again.
  void show_all(std::vector<Chunk>& chunks, std::span<const Accessor> readers);
  /// Unmaps every slot and gives the chunks up. The chunk of a slot that the driver will not unmap
  /// is not among them: its memory lives on behind the mapping, and is counted as leaked.
  std::vector<Chunk> take_apart() noexcept;

  /// The same, and the addresses go too: nothing of the driver's is left, whoever still holds it.
  std::vector<Chunk> close() noexcept;

  const Chunk& chunk(std::size_t slot) const { return slots_[slot].chunk; }
  Location home(std::size_t slot) const;
  std::uint64_t generation(std::size_t slot) const;
  /// The slot shows `target` from now on; returns the chunk that it showed. A new generation.
  Chunk replace(std::size_t slot, Chunk target);
  /// The slot shows nothing that can be used any more, for ever: its chunk holds the bytes (I4).
  /// `still_mapped`: the driver kept some mapping there.
  void poison(std::size_t slot, bool still_mapped);

  std::vector<Extent> extents() const;
  bool at_one_place() const;
  bool poisoned() const noexcept { return poisoned_.load(); }

  // What the user asked for; constant while the pointer is valid.
  std::string tag;
  bool movable = true;

  /// Set by the thread that frees it: a move ends at the next chunk border.
  std::atomic<bool> being_freed{false};
  /// Views that keep it where it is.
  std::atomic<int> pins{0};

 private:
  struct Slot {
    Chunk chunk;
    std::uint64_t generation = 0;
    bool mapped = false;
  };

  Driver& driver_;
  Ledger& ledger_;
  Reservation reservation_;
  const Geometry geometry_;
  Mutex operations_;
  mutable Mutex slots_mutex_;  // For `extents`; writers hold `operations_` too.
  std::vector<Slot> slots_;
  std::atomic<bool> poisoned_{false};
};

}  // namespace vma
