#pragma once

#include "base/clock.hpp"
#include "base/ids.hpp"
#include "base/listener.hpp"
#include "memory/allocation.hpp"
#include "migrate/migration/callbacks.hpp"

#include <vma/place.hpp>
#include <vma/migration.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace vma {

/// What has just happened to one chunk's move.
struct ChunkStep {
  enum class Kind {
    begun,     ///< From now on memory is allocated and bytes are copied.
    stopped,   ///< Work was stopped for it, from `begin` to `end`.
    moved,     ///< It is at `to`; the move lasted from `begin` to `end`.
    stayed,    ///< It is at `from`, for the reason `why`.
    restored,  ///< Its contents were dropped at `from`; it has memory again at `to`, which may be
               ///< the same place.
  };
  Kind kind = Kind::begun;
  TimePoint begin{0}, end{0};
  Address address{};  ///< Of the chunk.
  std::uint64_t bytes = 0;
  Place from, to;
  std::chrono::nanoseconds stall{0};  ///< How long work was stopped for it by now.
  StopKind stop = StopKind::none;     ///< What stopped the work last.
  /// For `stopped`: from the first stream's arrival to the last, before `begin`; the number of
  /// streams.
  std::chrono::nanoseconds skew{0};
  std::uint32_t streams = 0;
  TimePoint switched{0};        ///< For `moved` and `restored`: its slot showed the new memory.
  std::uint64_t operation = 0;  ///< `MigrationTerms::operation`.
  bool by_policy = false;       ///< `MigrationTerms::by_policy`.
  std::string why;
};

/// Called by the thread that moves, which may hold the allocation's `operations()`: it may only
/// take notes. What it throws is logged.
using ChunkWatcher = std::function<void(const ChunkStep&)>;

/// Called for each migration that has ended, in the background or not, whatever its outcome, before
/// any thread that waits for it continues. No lock is held, but the move claim may be. It must not
/// wait for a move. What it throws is logged.
using MoveWatcher = std::function<void(const std::shared_ptr<Allocation>&, const MigrationReport&)>;

/// Notifies watchers of the outcome of moves, and keeps totals. Any thread.
class MoveObservers {
 public:
  /// One watcher at a time; an empty one removes it. Blocks: while the former is being called.
  void watch(MoveWatcher watcher);
  void watch_chunks(ChunkWatcher watcher);

  void tell(const ChunkStep& step) noexcept;
  /// Once for each migration.
  void ended(Allocation& allocation, const MigrationReport& report) noexcept;

  std::uint64_t migrations() const noexcept { return migrations_; }
  std::uint64_t bytes_moved() const noexcept { return bytes_moved_; }
  std::uint64_t bytes_copied_twice() const noexcept { return bytes_copied_twice_; }

 private:
  Listener<MoveWatcher> watcher_;
  Listener<ChunkWatcher> chunk_watcher_;
  std::atomic<std::uint64_t> migrations_{0};
  std::atomic<std::uint64_t> bytes_moved_{0};
  std::atomic<std::uint64_t> bytes_copied_twice_{0};
};

/// Tells an allocation's hooks of each chunk that is about to move, and of the outcome, also for
/// chunks that a failed migration leaves behind. One thread, nothing stopped.
class MoveNotices {
 public:
  MoveNotices(Allocation& allocation, Callbacks& callbacks)
      : allocation_(allocation), callbacks_(callbacks) {}
  /// Reports chunks without a call of `after` as having stayed.
  ~MoveNotices();
  MoveNotices(const MoveNotices&) = delete;
  MoveNotices& operator=(const MoveNotices&) = delete;

  /// Throws: Error{cancelled} with the text of the exception of a hook. Once for each slot.
  void before(std::size_t slot, Place from, Place to);
  /// Whether there are no hooks, or `before` was called.
  bool all_told(std::size_t slot) const {
    return allocation_.hooks().empty() || open_.contains(slot);
  }
  void after(std::size_t slot, bool moved) noexcept;

 private:
  Allocation& allocation_;
  Callbacks& callbacks_;
  std::map<std::size_t, MoveEvent> open_;  // By slot: `before` was called, `after` not yet.
};

}  // namespace vma
