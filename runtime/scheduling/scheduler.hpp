#pragma once

#include "base/mutex.hpp"
#include "memory/memory.hpp"
#include "migrate/moves/migrator.hpp"
#include "placement/deciding/decision_path.hpp"
#include "placement/deciding/policy_failures.hpp"
#include "placement/planning/decision.hpp"
#include "recording/decision_log.hpp"
#include "recording/recording.hpp"
#include "scheduling/chunk_roster.hpp"
#include "scheduling/decision_journal.hpp"
#include "scheduling/installed_policy.hpp"
#include "scheduling/scheduled_moves.hpp"
#include "scheduling/scheduler_inbox.hpp"
#include "scheduling/use_intake.hpp"
#include "telemetry/use_log.hpp"

#include <vma/scheduler.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vma {

struct SchedulerLimits {
  std::chrono::nanoseconds policy_limit = std::chrono::milliseconds(500);  ///< For one call.
  PolicyFailureLimits failures;
  bool dry_run = false;  ///< Everything but the moves.
  PlannerLimits planner;
  HeatLimits heat;
  PaceLimits pace;
};

/// What a scheduler uses; all of it outlives the scheduler.
struct SchedulerGround {
  Driver& driver;
  Memory& memory;
  Migrator& migrator;
  UseLog& uses;
  DecisionLog& decisions;
  Recording* recording = nullptr;  ///< Null: nothing is recorded.
  /// Called with each decision, under the scheduler's lock: it may only take notes. Empty: none.
  std::function<void(const Decision&)> decided = nullptr;
};

/// Asks a policy where memory should be, and carries that out.
///
/// Any thread. One lock guards everything and is held while a policy decides, so that the books it
/// reads do not change; other calls wait for that, for at most the limit. `SchedulerLoop` calls
/// `collect` and `tick`, or the code that steps the scheduler.
/// One owner: one lock guards all parts, since a decision reads and changes most of them.
class Scheduler {
 public:
  /// Throws: what `make` throws for `policy`.
  Scheduler(const SchedulerGround& ground, std::vector<PlaceState> places,
            const MachineCosts& costs, const SchedulerLimits& limits, PolicyMaker make,
            const std::string& policy);
  /// Requires: no thread calls it any more, and the migrator has stopped.
  ~Scheduler();

  // --- For the loop
  /// Takes in what was reported since the last time, and lets the policy decide about it. False if
  /// nothing was reported.
  bool collect();
  /// At process exit: records what was reported; the policy is no longer called, and nothing is
  /// decided. Blocks: for the lock, for at most `limit`; false if it was not acquired.
  bool close_within(std::chrono::nanoseconds limit) noexcept VMART_NO_THREAD_ANALYSIS;
  /// `late`: it is more than a period late.
  void tick(bool late = false);
  /// `wake` is called, on any thread, when something was reported that should be collected soon.
  /// An empty one removes it.
  void wake_with(std::function<void()> wake) { inbox_->wake_with(std::move(wake)); }

  // --- For programs and people
  /// Where the chunks of a new allocation go. Blocks: while the policy decides.
  std::vector<Place> place(const Geometry& geometry, Place device, const AllocOptions& options);
  /// Implements the presser of the memory: victims leave `at`. Blocks: until they have, or `until`.
  bool make_room(Place at, std::uint64_t bytes, TimePoint until);
  /// Closes `at` for new chunks until `refill`, and moves everything away from it. Throws:
  /// Error{busy} while paused; then nothing has changed. A pause or a refill ends it. On return,
  /// moves that it planned and that have not ended are cancelled. Blocks: until everything has
  /// left.
  DrainReport drain_place(Place at, const DrainOptions& options);
  void refill(Place at);
  void set_capacity(Place at, std::uint64_t bytes);
  void set_parked(Address begin, bool parked);

  void set_policy(const std::string& text);
  std::string policy() const;
  /// Whether `set_policy` was ever called, by the program or from outside. Does not block.
  bool policy_was_set() const noexcept { return policy_was_set_.load(std::memory_order_relaxed); }
  void pause();
  void resume();
  /// Collects and ticks, paused or not. Blocks: until both are done.
  void step();
  /// Ends all decisions and all waits of other threads. Any thread.
  void stop() noexcept;
  /// Nobody reports to it any more. Requires: as the destructor, which does this, too.
  void let_go() noexcept;
  SchedulerStats stats() const;
  /// How full the places are, with all moves that have ended, and the demand for what they hold.
  std::vector<PlaceState> places();
  /// Places closed by a drain, whether it is running, done or failed.
  std::vector<Place> closed_places() const;
  /// The most recent ones about an allocation or one chunk of it, oldest first; none if the
  /// scheduler does not know the allocation yet.
  std::vector<Decision> decisions_about(Address begin, std::optional<std::uint32_t> slot) const;
  /// Text for people: what was decided about a chunk, and what keeps it where it is.
  std::vector<std::string> explain(Address address) const;
  SchedulerInbox& inbox() noexcept { return *inbox_; }

 private:
  /// Updates the books: the time, ended moves, new and freed allocations.
  void catch_up() VMART_REQUIRES(mutex_);
  void take_ended() VMART_REQUIRES(mutex_);
  void take_inbox() VMART_REQUIRES(mutex_);
  void look_up_missed() VMART_REQUIRES(mutex_);
  bool take_event(const SchedulerInbox::Event& event) VMART_REQUIRES(mutex_);
  bool collect_locked() VMART_REQUIRES(mutex_);
  void tick_locked() VMART_REQUIRES(mutex_);
  void start_ready() VMART_REQUIRES(mutex_);
  PlaceId close_for_drain(Place at);
  void await_end(MutexLock& lock, TimePoint until) VMART_REQUIRES(mutex_);
  std::uint64_t used_bytes(PlaceId at) const VMART_REQUIRES(mutex_);
  bool may_leave_later(PlaceId at) const VMART_REQUIRES(mutex_);
  void give_up_drain(PlaceId at) VMART_REQUIRES(mutex_);

  const SchedulerGround ground_;
  Clock& clock_;
  const SchedulerLimits limits_;
  const std::shared_ptr<SchedulerInbox> inbox_;  // A migration's callback may come late.

  std::atomic<bool> policy_was_set_{false};

  mutable Mutex mutex_;
  Condition move_ended_;
  ChunkRoster roster_ VMART_GUARDED_BY(mutex_);
  DecisionPath path_ VMART_GUARDED_BY(mutex_);
  DecisionJournal journal_ VMART_GUARDED_BY(mutex_);
  InstalledPolicy policy_ VMART_GUARDED_BY(mutex_);
  UseIntake uses_ VMART_GUARDED_BY(mutex_);
  ScheduledMoves moves_ VMART_GUARDED_BY(mutex_);
  bool paused_ VMART_GUARDED_BY(mutex_) = false;
  bool stopped_ VMART_GUARDED_BY(mutex_) = false;
  std::vector<SchedulerInbox::Event> events_ VMART_GUARDED_BY(mutex_);  // Not yet handled.
  std::map<PlaceId, std::uint64_t> drained_ VMART_GUARDED_BY(mutex_);   // With their capacity.
  SchedulerStats stats_ VMART_GUARDED_BY(mutex_);
  std::unique_ptr<StopStats> tick_times_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
