#pragma once

#include "migrate/gates/gate.hpp"
#include "migrate/live/live_account.hpp"
#include "migrate/live/live_chunk.hpp"
#include "migrate/live/live_staging.hpp"
#include "migrate/live/move_conditions.hpp"
#include "migrate/migration/move_notices.hpp"
#include "migrate/migration/move_parts.hpp"
#include "migrate/live/stop_tries.hpp"

#include <deque>
#include <exception>
#include <optional>

namespace vma {

/// One migration in the background, chunk by chunk: how a worker of `Mover` executes a task.
///
/// A chunk is staged (`LiveStaging`: target, copy beside the application), then stopped for and
/// switched (`ChunkStop`), again and again as needed (`StopTries`); the next one is copied
/// meanwhile. One thread, which has the allocation's move claim; takes `operations()` for each
/// switch.
class LiveMove {
 public:
  /// `report` is the task's initial report; it is right whatever `run` throws, including bad_alloc.
  LiveMove(const MoveParts& parts, MigrationTask& task, Allocation& allocation,
           MigrationReport& report);

  /// Throws: Error with the report; each chunk is whole at its source or at its target, or the
  /// allocation is poisoned.
  void run();

 private:
  /// How a try to stop ended. Neither a refusal nor a failure: the chunk was switched.
  struct Try {
    std::optional<Gate::Refusal> refusal;
    std::exception_ptr failure;
    bool stood = false;  ///< Some stream was stopped.
  };

  void plan();
  void move_all();
  void move_chunk(LiveChunk& chunk, LiveChunk* next);
  void complete(LiveChunk& chunk);
  bool ready_to_stop(LiveChunk& chunk);
  Try stop_once(LiveChunk& chunk);
  bool must_settle(const LiveChunk& chunk) const;
  void retire(LiveChunk& chunk) noexcept;
  void finish(TimePoint start) noexcept;

  const MoveParts& parts_;
  MigrationTask& task_;
  Memory& memory_;
  Clock& clock_;
  Allocation& allocation_;
  LiveAccount account_;
  const MoveConditions conditions_;
  MoveNotices notices_;
  std::deque<LiveChunk> chunks_;  // In order of their slots.
  LiveStaging staging_;
  StopTries tries_;
};

}  // namespace vma
