#pragma once

#include "base/clock.hpp"
#include "memory/memory.hpp"
#include "placement/deciding/decision_path.hpp"
#include "scheduling/chunk_roster.hpp"
#include "scheduling/decision_journal.hpp"
#include "telemetry/claim_limit.hpp"
#include "telemetry/known_starts.hpp"
#include "telemetry/use_log.hpp"
#include "telemetry/use_summary.hpp"

#include <vma/snapshot.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace vma {

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
  /// The allocation that begins there was freed.
  void forget(Address begin) noexcept { starts_.forget(begin); }
  /// Adds the hints since the last call.
  void take_hints(UseReports& reports);

  std::uint64_t uses() const noexcept { return uses_; }
  /// All uses that were reported so far, also those that nobody will see: the program's progress.
  std::uint64_t reported() const;
  std::uint64_t hints() const noexcept { return hints_; }
  /// Uses of memory that the runtime does not own or that was freed.
  std::uint64_t uses_unknown() const noexcept;

 private:
  void report_rows(UseReports& reports);

  UseLog& log_;
  const ChunkRoster& roster_;
  DecisionPath& path_;
  DecisionJournal& journal_;
  const std::function<void()> catch_up_;
  KnownStarts starts_;
  UseSummary summary_;
  ClaimLimit limit_;
  std::vector<LoggedUse> raw_uses_;
  std::vector<UseClaim> claims_;  // Buffer of `report_rows`.
  std::uint64_t uses_ = 0, hints_ = 0;
};

}  // namespace vma
