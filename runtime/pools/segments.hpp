#pragma once

#include "base/mutex.hpp"
#include "memory/memory.hpp"
#include "pools/block.hpp"
#include "pools/pool_uses.hpp"

#include <vma/pool.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>

namespace vma {

/// Which segment an address lies in, of all pools of a runtime. Looked up without a lock, through
/// the number of the allocation.
class SegmentTable {
 public:
  explicit SegmentTable(const Registry& registry) : registry_(registry) {}
  ~SegmentTable();
  SegmentTable(const SegmentTable&) = delete;
  SegmentTable& operator=(const SegmentTable&) = delete;

  /// Requires: the segment is a registered allocation. Throws: std::bad_alloc.
  void enter(Segment& segment);
  /// Requires: entered, and still registered.
  void remove(const Segment& segment) noexcept;
  /// Null if the address is in no segment.
  Segment* find(Address address) const noexcept;
  /// The block that begins at the address; null if none does, or if it is not in a segment.
  Block* block_at(Address address) const noexcept;

 private:
  using Cell = std::atomic<Segment*>;
  static constexpr std::uint32_t cells_of_block = 1024;

  const Registry& registry_;
  std::array<std::atomic<Cell*>, 4096> blocks_{};  // By id, in blocks that live until the end.
};

/// The segments of one pool, and how many bytes they are. The lock of the pool guards everything
/// but `make` and `give_back`, which are called without any lock.
class Segments {
 public:
  Segments(Memory& memory, SegmentTable& table, BlockPool& pool);
  /// Requires: `give_back` for all of them, or the memory is shut down.
  ~Segments() = default;

  /// One segment with room for at least `need_bytes`; larger ones while the pool grows. Counted
  /// from here on. Throws: Error{out_of_memory}, also if the pool would exceed `max_bytes`; what
  /// `Memory::alloc` throws. Blocks: for memory.
  std::list<Segment> make(std::uint64_t need_bytes, Place at, const PoolOptions& options);
  /// Whether a segment that moves is given back once the move has given up, or stays.
  enum class IfItMoves { waits, stays };
  /// Gives a segment back to the runtime. Returns whether it did: one that is kept or pinned is
  /// refused, and then it is still there. Requires: no work uses it. Blocks: for a move, if
  /// `waits`.
  bool give_back(Segment& segment, IfItMoves if_it_moves) noexcept;
  /// `keeps` is asked, from any thread and with no lock held, whether an unused segment must stay.
  /// It must not wait for moves or the turn for slow calls. Empty: none must. Returns false if
  /// there is another.
  bool keep_for(std::function<bool(Address)> keeps);
  /// Whether some of it is at that place, wherever the pool is.
  bool is_at(const Segment& segment, Place at) const;

  void insert(std::list<Segment>& made) noexcept { all_.splice(all_.end(), made); }
  /// Requires: given back.
  void erase(const Segment& segment) noexcept;
  std::list<Segment>& all() noexcept { return all_; }
  const std::list<Segment>& all() const noexcept { return all_; }

  std::uint64_t reserved_bytes() const noexcept { return reserved_.load(); }
  std::uint64_t reserved_high_bytes() const noexcept { return reserved_high_.load(); }
  void reset_high() noexcept { reserved_high_ = reserved_.load(); }

 private:
  bool claim(std::uint64_t size_bytes, std::uint64_t max_bytes) noexcept;
  bool is_kept(const Segment& segment) const;

  Memory& memory_;
  SegmentTable& table_;
  BlockPool& pool_;
  std::list<Segment> all_;
  std::atomic<std::uint64_t> reserved_{0}, reserved_high_{0};
  mutable Mutex keeping_;
  std::function<bool(Address)> keeps_ VMART_GUARDED_BY(keeping_);
};

}  // namespace vma
