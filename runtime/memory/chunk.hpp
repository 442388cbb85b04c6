#pragma once

#include "driver/driver.hpp"
#include "memory/ledger.hpp"
#include "memory/reservation.hpp"

#include <cstdint>
#include <span>
#include <utility>

namespace vma {

/// A handle of the driver that a Chunk takes over.
struct ChunkMemory {
  ChunkHandle handle{};
  Location at;
  std::uint64_t size_bytes = 0;
  ExportTypes types{};    ///< With which it was created.
  bool imported = false;  ///< Of another process: its bytes are not booked in this one.
};

/// Physical memory at one location: the unit that moves. Owns the driver's handle and a staging
/// mapping that is granted to every reader and lasts as long as the chunk. Copies go through the
/// staging mapping, whatever the slots show; the slow first grant of a new handle happens here,
/// outside any move; and the bytes stay readable if a slot goes dark for good.
///
/// Move-only. Not thread-safe: its owner (an Allocation, the ChunkCache, a Transaction) guards it.
class Chunk {
 public:
  Chunk() = default;
  /// Throws: Error{out_of_memory} if `at` is full. Blocks: in the driver, most for host memory.
  /// Requires: the bytes are booked in the ledger.
  Chunk(Driver& driver, Ledger& ledger, Location at, std::uint64_t size_bytes,
        std::span<const Accessor> readers);
  /// The same for memory that exists. Takes over the handle, also if it throws.
  Chunk(Driver& driver, Ledger& ledger, const ChunkMemory& memory,
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
  Location at() const noexcept { return at_; }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  /// Where the bytes can be read and written, whether or not a slot shows them.
  Address staging() const noexcept { return staging_.begin(); }

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

 private:
  void map_staging(std::span<const Accessor> readers);

  Driver* driver_ = nullptr;
  Ledger* ledger_ = nullptr;
  ChunkHandle handle_{};
  Location at_;
  std::uint64_t size_bytes_ = 0;
  ExportTypes types_;
  bool imported_ = false;
  mutable bool busy_ = false;
  mutable bool shared_ = false;
  Reservation staging_;
};

}  // namespace vma
