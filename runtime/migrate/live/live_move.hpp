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

/// One migration in the background, batch by batch: how a worker of `Mover` executes a task.
///
/// The chunks of a batch are staged (`LiveStaging`: target, copy beside the application), then one
/// gate stops the streams and switches as many of them as its time allows (`BatchStop`), again and
/// again as needed (`StopTries`); those of the next batch are copied meanwhile. One thread, which
/// has the allocation's move claim; takes `operations()` for each gate.
class LiveMove {
 public:
  /// `report` is the task's initial report; it is right whatever `run` throws, including bad_alloc.
  LiveMove(const MoveParts& parts, MigrationTask& task, Allocation& allocation,
           MigrationReport& report);

  /// Throws: Error with the report; each chunk is whole at its source or at its target, or the
  /// allocation is poisoned.
  void run();

 private:
  /// How a try to stop ended. Neither a refusal nor a failure: some chunk was switched.
  struct Try {
    std::optional<Gate::Refusal> refusal;
    std::exception_ptr failure;
    bool stood = false;  ///< Some stream was stopped.
  };

  void plan();
  void move_all();
  LiveChunk* first_left() noexcept;
  void complete(LiveBatch& batch);
  bool ready_to_stop(LiveBatch& batch);
  Try stop_once(LiveBatch& batch);
  bool must_settle(const LiveChunk& chunk) const;
  bool retire_switched(LiveBatch& batch) noexcept;
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
  std::size_t switched_ = 0;      // All before this one have switched.
  LiveStaging staging_;
  StopTries tries_;
};

}  // namespace vma
