#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"
#include "pools/free_blocks.hpp"
#include "pools/graph_memory.hpp"
#include "pools/pool_uses.hpp"
#include "pools/segments.hpp"

#include <vma/pool.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace vma {

class BlockPool;

/// Hears of the last use of a destroyed pool. Any thread, which holds no lock of the pool.
class LastUses {
 public:
  virtual void look(const BlockPool* pool) noexcept = 0;

 protected:
  ~LastUses() = default;
};

/// One pool: blocks in segments, given out and taken back in the order of streams. Any thread.
///
/// The usual call takes one lock, that of its stream, and makes one driver call, which does not
/// block. The lock of the pool is for everything else; it is not held while a segment is allocated
/// or given back.
class BlockPool {
 public:
  BlockPool(Driver& driver, Memory& memory, SegmentTable& table, LastUses& last_uses,
            StreamBook::Lives lives, Place at, const PoolOptions& options);
  /// Requires: `close`.
  ~BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// As `Pool` says for each of them. `deallocate` requires a block of this pool that was live at
  /// some time. It and `free_now` may end a destroyed pool; the others require that the caller
  /// keeps it.
  Address allocate(std::uint64_t bytes, StreamHandle stream, std::uint64_t alignment);
  void deallocate(Block& block, StreamHandle stream);
  /// Allocates for any work. If `free_waits`, `free` of the block waits, like that of other memory.
  Address allocate_now(std::uint64_t bytes, std::uint64_t alignment, bool free_waits);
  /// Frees a block that no work uses.
  void free_now(Block& block);
  /// Where in its segment the block lies; none if it is not live.
  std::optional<BlockPlace> place_of(const Block& block) const {
    const MutexLock lock(mutex_);
    if (block.holder.load() != Block::live) return std::nullopt;
    const Address segment = block.segment->begin;
    return BlockPlace{segment, block.begin - segment, block.size_bytes};
  }
  void order(StreamHandle after, StreamHandle before);
  std::uint64_t trim(std::uint64_t keep_bytes) {
    return give_back(keep_bytes, true, {}, Segments::IfItMoves::waits);
  }
  /// The same for memory that is at the place, at least in part.
  std::uint64_t make_room(Place at) {
    return give_back(0, true, [&](const Segment& segment) { return segments_.is_at(segment, at); });
  }

  /// The frees of all streams, or of one, until now; `complete` says that they are.
  using Past = std::vector<StreamBook::Epoch>;
  Past past(std::uint64_t only_stream = StreamFrees::nobody) {
    return free_.streams().past(only_stream);
  }
  void complete(const Past& past) noexcept;
  /// The stream is about to be destroyed; `has_left` says whether it was. Requires: it exists.
  void leaves(StreamHandle stream) noexcept { free_.streams().leaves(stream); }
  void has_left(StreamHandle stream, bool left) noexcept { free_.streams().has_left(stream, left); }

  PoolStats stats();
  void reset_high_marks();
  Place place() const noexcept { return at_; }
  /// Returns where it was; `move_back` says that the move has failed. Unless another one came
  /// later.
  Place move_to(Place at) noexcept { return at_.exchange(at); }
  void move_back(Place at, Place home) noexcept { at_.compare_exchange_strong(at, home); }
  PoolOptions options() const;
  void set_release_threshold(std::uint64_t bytes);
  void set_reuse(const ReusePolicies& reuse);
  std::vector<BlockPlace> segments() const;
  /// See `Segments`.
  bool keep_segments(std::function<bool(Address)> keeps) {
    return segments_.keep_for(std::move(keeps));
  }

  /// For RetiredPools, which ends a destroyed pool. False: it was destroyed before.
  bool retire() {
    return uses_.retire([this] { fold_uses(); });
  }
  bool retired() const noexcept { return uses_.retired(); }
  /// What is left of a destroyed pool.
  enum class Rest {
    none,
    idle,     ///< Memory that nothing uses, but was pinned or moved when it was to be given back.
    pending,  ///< Frees and graphs; the driver tells when they are complete.
    held,     ///< Blocks in use, or frees that only a call that waits completes.
  };
  Rest rest();
  /// The same after a look at events. Neither waits nor takes a lock of the memory.
  Rest ask();
  /// Throws: std::bad_alloc.
  void give_back_all() { give_back(0, true); }
  /// Gives back what else it has of the driver. No other call may follow.
  void close() noexcept;
  /// Whether frees are left of streams that cannot be asked.
  bool has_unknown_frees();

  /// Requires: no call is in progress.
  void check_invariants();

 private:
  BlockRequest request(std::uint64_t bytes, std::uint64_t alignment, StreamHandle stream) const;
  Block* take_own(const BlockRequest& request);
  Block& find(const BlockRequest& request);
  Block* search(const BlockRequest& request);
  [[noreturn]] static void refuse();
  Block& find_complete(const BlockRequest& request);
  void collect_graphs() VMART_REQUIRES(mutex_);
  void grow(const BlockRequest& request);
  Address allocate_captured(const BlockRequest& request, std::uint64_t capture);
  void deallocate_captured(Block& block, StreamHandle stream, std::uint64_t capture);
  bool deallocate_late(Block& block, StreamHandle stream, std::uint64_t id);
  using Chosen = std::function<bool(const Segment&)>;
  std::vector<Segment*> withdraw_idle(std::uint64_t keep_bytes, const Chosen& chosen)
      VMART_REQUIRES(mutex_);
  std::uint64_t give_back(std::uint64_t keep_bytes, bool ask, const Chosen& chosen = {},
                          Segments::IfItMoves if_it_moves = Segments::IfItMoves::stays);
  class Use;
  void fold_uses();
  void end_use(std::uint64_t bytes) noexcept;
  void hand_out(Block& block) noexcept;
  static void claim(Block& block, const char* call);
  Rest rest_now() VMART_REQUIRES(mutex_);
  std::list<Segment> make_segment(std::uint64_t need_bytes, const PoolOptions& options);
  void put_complete(Block& block) noexcept VMART_REQUIRES(mutex_);

  Driver& driver_;
  LastUses& last_uses_;
  std::atomic<Place> at_;
  mutable Mutex mutex_;
  Segments segments_;  // All but its calls without locks is guarded by `mutex_`.
  FreeBlocks free_;    // Likewise all but its streams.
  GraphMemories graphs_ VMART_GUARDED_BY(mutex_);
  PoolOptions options_ VMART_GUARDED_BY(mutex_);
  PoolUses uses_;
};

}  // namespace vma
