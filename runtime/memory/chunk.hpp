#pragma once

#include "driver/driver.hpp"
#include "memory/ledger.hpp"

#include <cstdint>
#include <span>
#include <utility>

namespace vma {

/// A range of addresses without memory. Owns the range, unless it is lent; move-only.
///
/// Not thread-safe: its owner guards it.
class Reservation {
 public:
  Reservation() = default;
  /// Throws: Error{out_of_memory} when addresses run out.
  Reservation(Driver& driver, Ledger& ledger, std::uint64_t size_bytes);
  /// A range that somebody else has reserved, for at least as long as anything is mapped in it.
  static Reservation lent(Address begin, std::uint64_t size_bytes) noexcept;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  /// Requires: nothing is mapped in it, or it was abandoned. If the driver refuses, counts a leak.
  ~Reservation();

  Address begin() const noexcept { return begin_; }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  bool is_lent() const noexcept { return lent_; }

  /// Never gives the range back: something in it could not be unmapped, which the caller has
  /// counted.
  void abandon() noexcept { driver_ = nullptr; }

 private:
  void unreserve() noexcept;

  Driver* driver_ = nullptr;  // Null once moved from, and if it is lent.
  Ledger* ledger_ = nullptr;
  Address begin_{};
  std::uint64_t size_bytes_ = 0;
  bool lent_ = false;
};

/// A handle of the driver that a Chunk takes over.
struct ChunkMemory {
  ChunkHandle handle{};
  Place at;
  std::uint64_t size_bytes = 0;
  ExportTypes types{};    ///< With which it was created.
  bool imported = false;  ///< Of another process: its bytes are not booked in this one.
};

/// Physical memory at one place: the unit that moves. Owns the driver's handle and, once it is
/// first to be copied, a staging mapping that is granted to every reader and lasts as long as the
/// chunk. Copies of moves go through the staging mapping, whatever the slots show; the slow first
/// grant of a target's handle happens there, before anything is stopped; and the bytes stay
/// readable if a slot goes dark for good. HBM that never moves needs none.
///
/// Move-only. Not thread-safe: its owner (an Allocation, the ChunkCache, a Transaction) guards it.
class Chunk {
 public:
  Chunk() = default;
  /// Takes over the handle; without a staging mapping. Requires: the bytes are booked in the
  /// ledger.
  Chunk(Driver& driver, Ledger& ledger, const ChunkMemory& memory) noexcept;
  /// The same with a staging mapping. Takes over the handle, also if it throws. Throws and blocks:
  /// as `map_staging`.
  Chunk(Driver& driver, Ledger& ledger, const ChunkMemory& memory,
        std::span<const Accessor> readers);
  /// The same with new memory. Throws: Error{out_of_memory} if `at` is full. Blocks: in the driver,
  /// most for host memory.
  Chunk(Driver& driver, Ledger& ledger, Place at, std::uint64_t size_bytes,
        std::span<const Accessor> readers);
  Chunk(Chunk&& other) noexcept { *this = std::move(other); }
  Chunk& operator=(Chunk&& other) noexcept;
  /// Calls `release`.
  ~Chunk();

  /// Unmaps the staging mapping and releases the handle; the driver keeps the memory while a slot
  /// shows it. Empty afterwards. False if the driver refused any of it; that is counted as a leak,
  /// including the bytes. The caller that booked the bytes unclaims them afterwards.
  bool release() noexcept;
  /// Never gives anything back; the caller counts the leak. Empty afterwards.
  void abandon() noexcept;

  explicit operator bool() const noexcept { return !is_none(handle_); }
  ChunkHandle handle() const noexcept { return handle_; }
  Place at() const noexcept { return at_; }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  /// Makes the staging mapping, unless there is one. It belongs to the memory, not to this object,
  /// so a const chunk can get one. Throws: Error{out_of_memory} without addresses or memory for
  /// page tables; a second call goes on. Blocks: in the driver.
  void map_staging(std::span<const Accessor> readers) const;
  bool has_staging() const noexcept { return granted_; }
  /// Where the bytes can be read and written, whether or not a slot shows them. Requires:
  /// `has_staging()`.
  Address staging() const noexcept;

  /// Marks the memory as never to be used again, because failed work may still read or write it.
  /// The mark belongs to the memory, not to this object, so a const chunk can be marked.
  void mark_busy() const noexcept { busy_ = true; }
  bool busy() const noexcept { return busy_; }

  const ExportTypes& types() const noexcept { return types_; }
  /// Whether the memory belongs to another process: nothing of it is booked here.
  bool imported() const noexcept { return imported_; }
  /// Marks the memory as known to other processes, which may keep and change it for as long as they
  /// like. It is never reused, but goes back to the driver.
  void mark_shared() const noexcept { shared_ = true; }
  bool shared() const noexcept { return shared_; }
  /// A slot shows it, granted to its readers.
  void mark_shown() const noexcept { shown_ = true; }
  /// Whether the first grant of the handle, which is slow, is done.
  bool was_granted() const noexcept { return shown_ || granted_; }

 private:
  Driver* driver_ = nullptr;
  Ledger* ledger_ = nullptr;
  ChunkHandle handle_{};
  Place at_;
  std::uint64_t size_bytes_ = 0;
  ExportTypes types_;
  bool imported_ = false;
  mutable bool busy_ = false;
  mutable bool shared_ = false;
  mutable bool shown_ = false;
  mutable Reservation staging_;
  mutable bool granted_ = false;  // Whether all readers may use the staging mapping.
};

/// Builds with VMART_CHECK_ACCESS query the driver for the rights of a slot after each grant.
#ifdef VMART_CHECK_ACCESS
inline constexpr bool access_is_verified = true;
#else
inline constexpr bool access_is_verified = false;
#endif

/// Checks that each accessor has exactly the stated rights at both ends of the range. If the query
/// itself fails, the check passes.
void check_access(Driver& driver, Address begin, std::uint64_t size_bytes,
                  std::span<const Accessor> accessors) noexcept;

/// Calls `check_access` in builds that verify; otherwise does nothing, because each query is a
/// driver call while a moving slot keeps work waiting.
inline void verify_access(Driver& driver, Address begin, std::uint64_t size_bytes,
                          std::span<const Accessor> accessors) noexcept {
  if constexpr (access_is_verified) check_access(driver, begin, size_bytes, accessors);
}

}  // namespace vma
