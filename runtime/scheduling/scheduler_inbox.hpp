#pragma once

#include "base/ids.hpp"
#include "base/mutex.hpp"
#include "memory/memory.hpp"
#include "migrate/migration/move_observers.hpp"
#include "placement/deciding/decision_path.hpp"
#include "scheduling/chunk_roster.hpp"
#include "scheduling/decision_journal.hpp"
#include "telemetry/use_log.hpp"
#include "telemetry/use_summary.hpp"

#include <vma/policy.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace vma {

/// Events about allocations, passed in order from any thread to the scheduler. Takes none of the
/// scheduler's locks, so callers may hold their own.
class SchedulerInbox : public MemoryWatcher {
 public:
  struct Event {
    enum class Kind { made, freed, changed, step };
    Kind kind = Kind::made;
    Address begin{};
    std::weak_ptr<Allocation> allocation;  ///< Of `made`.
    ChunkStep step;                        ///< Of `step`.
  };

  void made(const std::shared_ptr<Allocation>& allocation) noexcept override;
  void freed(Address begin) noexcept override;
  void changed(const Allocation& allocation) noexcept override;
  /// Keeps what is recorded: stops of streams, and moves of chunks without a decision.
  void stepped(const ChunkStep& step) noexcept;
  /// A stream was attached or detached: any allocation may be in scope now, or out of it.
  void scope_changed() noexcept { scope_changed_ = true; }
  bool take_scope_changed() noexcept { return scope_changed_.exchange(false); }

  /// Calls the function set by `wake_with`: an event should be handled soon.
  void wake() noexcept;
  /// `wake` must not throw nor call this. An empty one removes it. Blocks: while the former runs.
  void wake_with(std::function<void()> wake);

  /// Appends all events since the last call. Throws: std::bad_alloc; then they stay here.
  void take(std::vector<Event>& events);
  /// There was no memory for an event: from `found_missed` on, the caller must look up the state
  /// anew.
  bool missed() const noexcept { return missed_; }
  void found_missed() noexcept { missed_ = false; }

 private:
  void post(Event event) noexcept;

  Mutex mutex_;
  std::vector<Event> events_ VMART_GUARDED_BY(mutex_);
  Mutex wake_mutex_;  // Held during the call; no other lock of ours is taken under it.
  std::function<void()> wake_ VMART_GUARDED_BY(wake_mutex_);
  std::atomic<bool> scope_changed_{false}, missed_{false};
};

/// Enters what programs report, uses and hints, into the books of a scheduler and its recording.
/// For the scheduler, one thread at a time.
class UseIntake {
 public:
  /// The references outlive it. `catch_up` is called, on the thread of `take_uses`, if there are
  /// uses of memory that is not in the roster, and adds what is new.
  UseIntake(UseLog& log, Memory& memory, const ChunkRoster& roster, DecisionPath& path,
            DecisionJournal& journal, std::function<void()> catch_up);

  /// Adds the uses since the last call. Requires: there are none yet.
  void take_uses(UseReports& reports);
  /// Adds the hints since the last call.
  void take_hints(UseReports& reports);

  std::uint64_t uses() const noexcept { return uses_; }
  /// All uses that were reported so far, also those that nobody will see: the program's progress.
  std::uint64_t reported() const;
  std::uint64_t hints() const noexcept { return hints_; }
  /// Uses of memory that the runtime does not own or that was freed.
  std::uint64_t uses_unknown() const noexcept;

 private:
  UseLog& log_;
  const ChunkRoster& roster_;
  DecisionPath& path_;
  DecisionJournal& journal_;
  const std::function<void()> catch_up_;
  UseSummary summary_;
  std::vector<LoggedUse> raw_uses_;
  std::uint64_t uses_ = 0, hints_ = 0;
};

}  // namespace vma
