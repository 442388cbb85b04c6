#pragma once

#include "migrate/live/live_account.hpp"
#include "migrate/live/live_chunk.hpp"
#include "migrate/migration/migration_task.hpp"
#include "migrate/live/move_conditions.hpp"
#include "migrate/migration/move_notices.hpp"
#include "migrate/migration/move_parts.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

namespace vma {

/// Makes the chunks of a live move ready for their stops, beside the application: chooses the way
/// of each, takes target memory, and starts the live copies. Owns the lease of the copier, whose
/// bays the staged chunks occupy.
///
/// Only the thread of the move calls it, which has the allocation's move claim. Nothing is stopped
/// then, so that hooks may be called and room may be asked for.
class LiveStaging {
 public:
  LiveStaging(const MoveParts& parts, MigrationTask& task, Allocation& allocation,
              const MoveConditions& conditions, LiveAccount& account, MoveNotices& notices,
              std::deque<LiveChunk>& chunks);
  /// Waits for the copies in progress.
  ~LiveStaging();
  LiveStaging(const LiveStaging&) = delete;
  LiveStaging& operator=(const LiveStaging&) = delete;

  /// Takes the target memory of all chunks. Throws: Error{out_of_memory}.
  void reserve_all();
  /// Starts the copy of the chunk if that has not happened. Throws: Error; Blocks: for room, for
  /// the copier, and for the copy budget.
  void stage(LiveChunk& chunk);
  /// Copies the next chunk beside the stop for this one, if possible. Errors are ignored here: they
  /// recur when it is the next chunk's turn.
  void stage_ahead(const LiveChunk& chunk, LiveChunk& next);
  /// Streams may have been attached or detached since the way was chosen, so it may no longer work.
  void choose_again(LiveChunk& chunk);
  /// Blocks: until the live copy of the chunk has ended. Throws: what it failed with.
  void await_copy(LiveChunk& chunk);
  /// After a try that was given up: waits for the work started for it before anything else is done
  /// with the chunk (I6).
  void stand_down(LiveChunk& chunk) noexcept;
  /// The next chunks settle in a context of the runtime's own: a thread has blocked that of the
  /// application.
  void leave_application_context() noexcept;
  /// The chunk has switched and leaves its bay. Returns how many of its bytes were copied twice;
  /// none if it did not go live.
  std::optional<std::uint64_t> retire(LiveChunk& chunk) noexcept;
  /// Allocates digests from the room that the chunk has left, if it went stopped for want of them.
  void keep_room_for_digests(const LiveChunk& chunk) noexcept;
  /// Whether the copier of the chunk is the one that this move has leased.
  bool leased(const LiveChunk& chunk) const noexcept { return chunk.copier == leased_; }

 private:
  WayChoice choose(const LiveChunk& chunk) const;
  WayChoice choose_among(const LiveChunk& chunk) const;
  void begin(LiveChunk& chunk, const WayChoice& choice, bool may_ask);
  void begin_live(LiveChunk& chunk);
  void require_way(const LiveChunk& chunk) const;
  void take_target(LiveChunk& chunk, bool may_ask);
  LiveCopier& lease_copier(const LiveChunk& chunk) VMART_NO_THREAD_ANALYSIS;
  void give_up_lease() noexcept VMART_NO_THREAD_ANALYSIS;
  std::size_t free_bay(LiveCopier& copier, Location from) const;
  void unstage(LiveChunk& chunk) noexcept;
  bool ends_in_time(const std::function<bool(TimePoint)>& ended_by) const;
  void pace_copy(const LiveChunk& chunk);

  const MoveParts& parts_;
  MigrationTask& task_;
  Memory& memory_;
  Clock& clock_;
  Allocation& allocation_;
  const MoveConditions& conditions_;
  LiveAccount& account_;
  MoveNotices& notices_;
  std::deque<LiveChunk>& chunks_;
  MemoryPressure::Want want_;
  LiveCopier* leased_ = nullptr;                     // The copier whose `turn` this move has.
  std::array<bool, LiveCopier::bays> bays_taken_{};  // Of that copier, by staged chunks.
  int chunks_beside_ = 0;                // That still settle in a context of the runtime's own.
  double copy_ns_per_byte_ = 1.0 / 300;  // Of a live copy: a guess, until one was measured.
};

}  // namespace vma
