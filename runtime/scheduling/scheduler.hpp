#pragma once

#include "base/mutex.hpp"
#include "memory/memory.hpp"
#include "migrate/moves/mover.hpp"
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
  std::chrono::nanoseconds policy_limit = std::chrono::milliseconds(500);  ///< Of one call of it.
  PolicyFailureLimits failures;
  bool dry_run = false;  ///< Everything but the moves.
  PlannerLimits planner;
  HeatLimits heat;
};

/// What a scheduler stands on; all of it lives longer.
struct SchedulerGround {
  Driver& driver;
  Memory& memory;
  Mover& mover;
  UseLog& uses;
  DecisionLog& decisions;
  Recording* recording = nullptr;  ///< Null: nothing is recorded.
  /// Told of each decision, under the scheduler's lock: it may only take notes. Empty: nobody.
  std::function<void(const Decision&)> decided = nullptr;
};

/// Lets a policy decide what lies where, and has it carried out.
///
/// Any thread; one lock guards it all, and while a policy decides it is held: nobody writes the
/// books that it reads, and whoever asks something waits for it, for at most the limit. `drain` and
/// `tick` come from `SchedulerLoop`, or from whoever steps it.
class Scheduler {
 public:
  /// Throws: what `make` throws for `policy`.
  Scheduler(const SchedulerGround& ground, std::vector<PlaceState> places,
            const MachineCosts& costs, const SchedulerLimits& limits, PolicyMaker make,
            const std::string& policy);
  /// Requires: nobody calls it any more, and the mover has stopped.
  ~Scheduler();

  // --- The loop's
  /// Looks at what was reported since the last time, and lets the policy decide about it. False if
  /// nothing was.
  bool drain();
  /// At the end of the process: what was reported is recorded, the policy is not asked any more,
  /// and nothing is decided. Blocks: for the lock, for at most `limit`; false if it did not come.
  bool close_within(std::chrono::nanoseconds limit) noexcept VMART_NO_THREAD_ANALYSIS;
  /// `late`: it comes more than a period behind its time.
  void tick(bool late = false);
  /// `wake` is called, on any thread, when something has come that a drain should see soon. An
  /// empty one is nobody.
  void wake_with(std::function<void()> wake);

  // --- What programs and people ask
  /// Where the chunks of a new allocation go. Blocks: while the policy decides.
  std::vector<Location> place(const Geometry& geometry, Location device, const std::string& tag);
  /// What the memory's presser does: victims leave `at`. Blocks: until they have, or `until`.
  bool make_room(Location at, std::uint64_t bytes, TimePoint until);
  /// Nothing comes to `at` any more until `refill`, and what lies there leaves. Throws: Error{busy}
  /// while paused; then nothing has changed. A pause or a refill ends it. What it planned and is
  /// not done is given up when it returns. Blocks: until all has left.
  DrainReport drain_place(Location at, const DrainOptions& options);
  void refill(Location at);
  void set_capacity(Location at, std::uint64_t bytes);
  void set_parked(Address begin, bool parked);

  void set_policy(const std::string& text);
  std::string policy() const;
  void pause();
  void resume();
  /// A drain and a tick, paused or not. Blocks: until both are done.
  void step();
  /// Nothing is decided and nobody is let wait any more. Any thread.
  void stop() noexcept;
  SchedulerStats stats() const;
  /// How full they are, and how much is asked of what lies there.
  std::vector<PlaceState> places() const;
  /// Places closed by a drain, whether it is running, done or failed.
  std::vector<Location> closed_places() const;
  /// The last ones about an allocation or one chunk of it, oldest first; none of one that it does
  /// not know yet.
  std::vector<Decision> decisions_about(Address begin, std::optional<std::uint32_t> slot) const;
  /// Lines for people: what was decided about a chunk, and what keeps it where it is.
  std::vector<std::string> explain(Address address) const;
  SchedulerInbox& inbox() noexcept { return *inbox_; }

 private:
  /// The books know the time, what has ended and what came and went.
  void catch_up() VMART_REQUIRES(mutex_);
  void take_ended() VMART_REQUIRES(mutex_);
  void take_inbox() VMART_REQUIRES(mutex_);
  void look_up_missed() VMART_REQUIRES(mutex_);
  bool take_event(const SchedulerInbox::Event& event) VMART_REQUIRES(mutex_);
  bool drain_locked() VMART_REQUIRES(mutex_);
  void tick_locked() VMART_REQUIRES(mutex_);
  void start_ready() VMART_REQUIRES(mutex_);
  PlaceId close_for_drain(Location at);
  std::uint64_t used_bytes(PlaceId at) const VMART_REQUIRES(mutex_);
  bool may_leave_later(PlaceId at) const VMART_REQUIRES(mutex_);
  void give_up_drain(PlaceId at) VMART_REQUIRES(mutex_);

  const SchedulerGround ground_;
  Clock& clock_;
  const SchedulerLimits limits_;
  const std::shared_ptr<SchedulerInbox> inbox_;  // A migration's callback may come late.

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
  std::vector<SchedulerInbox::Event> events_ VMART_GUARDED_BY(mutex_);  // Not yet taken in.
  std::map<PlaceId, std::uint64_t> drained_ VMART_GUARDED_BY(mutex_);   // With their capacity.
  SchedulerStats stats_ VMART_GUARDED_BY(mutex_);
  std::unique_ptr<StopStats> tick_times_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
