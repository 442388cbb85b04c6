#pragma once

#include "migrate/live/batch_stop.hpp"
#include "migrate/live/live_ranges.hpp"
#include "migrate/live/live_staging.hpp"
#include "migrate/live/live_tasks.hpp"
#include "migrate/live/move_conditions.hpp"
#include "migrate/live/stop_tries.hpp"
#include "migrate/migration/move_parts.hpp"

#include <exception>
#include <memory>
#include <optional>

namespace vma {

/// Migrations in the background, batch by batch: how a worker of `Mover` executes a task, together
/// with others that wait for the same way.
///
/// The chunks of a batch are staged (`LiveStaging`: target, copy beside the application), then one
/// gate stops the streams and switches as many of them as its time allows (`BatchStop`), again and
/// again as needed (`StopTries`); those of the next batch are copied meanwhile. What ends one
/// migration (an error, a cancellation) leaves the others. One thread, which has the move claims;
/// takes `operations()` for each gate.
class LiveMove {
 public:
  /// Requires: `first`'s claim is taken. `tasks` outlives it.
  LiveMove(const MoveParts& parts, LiveTasks& tasks, std::shared_ptr<MigrationTask> first);

  /// Each migration ends through `LiveTasks::ended`. With an error, each of its chunks is whole at
  /// its source or at its target, or the allocation is poisoned.
  void run() noexcept;

 private:
  /// How a try to stop ended. Neither a refusal nor a failure: some chunk was switched.
  struct Try {
    std::optional<Gate::Refusal> refusal;
    std::exception_ptr failure;
    bool stood = false;  ///< Some stream was stopped.
  };

  template <typename Body>
  void ending_what_fails(LiveBatch& batch, Body&& body) noexcept;
  void begin();
  void move_next(LiveChunk& first);
  void complete(LiveBatch& batch);
  bool try_once(LiveBatch& batch);
  void prepare_to_stop(LiveBatch& batch);
  bool ready_to_stop(LiveBatch& batch);
  Try stop_once(LiveBatch& batch);
  void account_for(const LiveBatch& batch, const BatchStop& stop) noexcept;
  bool must_settle(const LiveChunk& chunk) const;
  bool retire_switched(LiveBatch& batch) noexcept;
  void retire(LiveChunk& chunk) noexcept;
  void fail(LiveBatch& batch, const LiveChunk& chunk, std::exception_ptr failure) noexcept;
  void fail_concerned(LiveBatch& batch) noexcept;
  void fail_all(LiveBatch& batch, const Error& error) noexcept;
  void end_unwanted(LiveBatch& batch) noexcept;

  const MoveParts& parts_;
  Clock& clock_;
  LiveRanges ranges_;
  const MoveConditions conditions_;
  LiveStaging staging_;
  StopTries tries_;
  LiveChunk* concerned_ = nullptr;  // By an error that is thrown now.
};

}  // namespace vma
