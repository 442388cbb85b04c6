#pragma once

#include "migrate/gates/gate.hpp"
#include "migrate/moves/live_way.hpp"
#include "migrate/moves/move_notices.hpp"
#include "migrate/moves/move_parts.hpp"
#include "migrate/moves/transaction.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace vma {

/// The call that errors of a live move name.
inline constexpr const char* live_move_call = "vma::migrate_async";

/// One chunk of a live move, from its plan to its end.
struct LiveChunk {
  LiveChunk(Memory& memory, CopyEngine& engine, Allocation& allocation, std::size_t slot,
            Location to)
      : transaction(memory, engine, allocation, slot, to) {}

  /// Its target was a clean copy; the slot may have been written to since, so the bytes must be
  /// copied.
  bool went_stale() const { return choice.way == Way::remapped && !transaction.target_clean(); }

  Transaction transaction;
  WayChoice choice;
  LiveCopier* copier = nullptr;  // While this chunk occupies its bay.
  std::size_t bay = 0;
  bool staged = false;
  TimePoint staged_at{0};
  /// The writable epoch of the allocation when the copy began, if it was read-only then.
  std::optional<std::uint64_t> read_only_since;
  TimePoint first_try{0};
  bool settled = false;  ///< In the last try.
  /// It goes stopped instead of this way, because there was no room for digests.
  std::optional<Way> lacked_digests;
  int tries = 0;         ///< Tries that were given up, except those that only waited.
  int waits = 0;         ///< Tries in which no stream got through its backlog, or its capture.
  int yields = 0;        ///< Tries that were given up since streams were attached or detached.
  bool overdue = false;  ///< In the last try no stream arrived in time, for whatever reason.
  /// For the next try: from the first arrival to the last, and from there to the switch.
  std::chrono::nanoseconds gate_limit{0};
  TimePoint deadline{0};  ///< For all tries.
  // What the watcher has been told.
  std::optional<TimePoint> begun;
  std::chrono::nanoseconds stall{0};
  bool ended = false;
};

class ChunkStop;

/// One migration in the background, chunk by chunk: how a worker of `Mover` executes a task.
///
/// A chunk is staged (target, copy beside the application), then stopped for and switched
/// (`ChunkStop`), retrying as needed; the next one is copied meanwhile. One thread, which has the
/// allocation's move claim; takes `operations()` for each switch.
class LiveMove {
 public:
  /// `report` is the task's initial report; it is right whatever `run` throws, including bad_alloc.
  LiveMove(const MoveParts& parts, MigrationTask& task, Allocation& allocation,
           MigrationReport& report);
  ~LiveMove();

  /// Throws: Error with the report; each chunk is whole at its source or at its target, or the
  /// allocation is poisoned.
  void run();

 private:
  void plan();
  void move_all();
  void finish_report() noexcept;
  void log_phases() const;
  void reserve_all();
  void take_target(LiveChunk& chunk, bool may_ask);
  void stage_ahead(const LiveChunk& chunk, LiveChunk& next);
  void stage(LiveChunk& chunk, const WayChoice& choice, bool may_ask);
  void stage_live(LiveChunk& chunk);
  std::size_t free_bay(LiveCopier& copier, Location from);
  void unstage(LiveChunk& chunk) noexcept;
  void stand_down(LiveChunk& chunk) noexcept;
  bool ends_in_time(const std::function<bool(TimePoint)>& ended_by);
  WayChoice choose(const LiveChunk& chunk) const;
  WayChoice choose_among(const LiveChunk& chunk) const;
  void choose_again(LiveChunk& chunk);
  void give_up_lease() noexcept VMART_NO_THREAD_ANALYSIS;
  void make_digests(const LiveChunk& chunk) noexcept;
  LiveCopier& lease_copier(const LiveChunk& chunk) VMART_NO_THREAD_ANALYSIS;
  void complete(LiveChunk& chunk);
  void note_stop(LiveChunk& chunk, const ChunkStop& stop);
  void await_copy(LiveChunk& chunk);
  void give_up_or_back_off(LiveChunk& chunk, const Gate::Refusal& refusal, bool stood);
  void widen_limit(const Gate::Refusal& refusal, bool stood) noexcept;
  void count_reason(std::string_view reason) noexcept;
  void retired(LiveChunk& chunk) noexcept;
  void pace_copy(const LiveChunk& chunk);
  std::chrono::nanoseconds pace_stop();
  void require_going_on();
  void require_movable(TimePoint deadline);
  void require_streams();
  void back_off(bool may_be_cut, int attempt);
  TimePoint chunk_deadline() const;
  void note_failure(const LiveChunk& chunk, const std::exception& error) noexcept;
  ChunkStep step_of(const LiveChunk& chunk, ChunkStep::Kind kind) const;
  void tell_begun(LiveChunk& chunk) noexcept;
  void tell_stood(LiveChunk& chunk, const GateTimes& times, std::size_t streams) noexcept;
  void tell_ended(LiveChunk& chunk, bool moved) noexcept;

  const MoveParts& parts_;
  MigrationTask& task_;
  Memory& memory_;
  Clock& clock_;
  Allocation& allocation_;
  const MigrateOptions& options_;
  MemoryPressure::Want want_;
  StopStats stats_;
  MigrationReport& report_;
  MoveNotices notices_;
  std::deque<LiveChunk> chunks_;                     // In order of their slots.
  LiveCopier* leased_ = nullptr;                     // The copier whose `turn` this move has.
  std::array<bool, LiveCopier::bays> bays_taken_{};  // Of that copier, by staged chunks.
  std::chrono::nanoseconds gate_limit_;  // For the next try; see MoverLimits::gate_limit_max.
  int chunks_beside_ = 0;                // See WayFacts.
  double copy_ns_per_byte_ = 1.0 / 300;  // Of a live copy: a guess, until one was measured.
};

}  // namespace vma
