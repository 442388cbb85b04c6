#pragma once

#include "migrate/gates/gate.hpp"
#include "migrate/stops/stopped_work.hpp"
#include "migrate/migration/move_parts.hpp"

#include <vma/migration.hpp>

#include <chrono>
#include <functional>
#include <optional>

namespace vma {

/// Stops the streams that may use one allocation, all at one gate, for as long as its caller needs:
/// for moves that processes decide together. Those of this process alone are switched by batches
/// (`BatchStop`), which stop for less. One thread, which has the move claim and `operations()`.
class GatedStop final : public StoppedWork {
 public:
  struct Limits {
    /// Of the tries to close the gate.
    std::chrono::nanoseconds close{0};
    /// How long it may be closed before a slot goes dark.
    std::chrono::nanoseconds patience{0};
  };

  GatedStop(const MoveParts& parts, const Allocation& allocation, const Limits& limits);

  /// Runs `body` once all streams have stopped; they continue when it returns. Notes times and
  /// tries in the report. Throws: Error{busy} if they do not stop within the limit, and as `body`;
  /// they run then.
  void run(MigrationReport& report, HeldTimes& times,
           const std::function<void(StoppedWork&)>& body);

  void begin_dark() override;
  void end_dark() noexcept override {}  // Only `run` opens.
  void alive() override {}              // A closed gate has all of its patience.

 private:
  std::optional<GateRefusal> attempt(const std::function<void(StoppedWork&)>& body);
  std::optional<GateRefusal> close(Gate& gate, SlowCallTurn& slow_calls, GatePost& post);
  GateLimits limits_of_try(SlowCallTurn& slow_calls) const;
  void prepare_for_next(const GateRefusal& refusal);

  const MoveParts& parts_;
  Clock& clock_;
  const Allocation& allocation_;
  const Limits limits_;
  TimePoint deadline_{0};
  int tries_ = 0;
  HeldTimes times_;
  bool stood_ = false;  // Some stream was stopped in the last try.
  GatePlan plan_;
  std::optional<AttachedStreams::Use> streams_;  // During a try, as the next two.
  std::optional<MutexLock> nobody_attaches_;
  Gate* gate_ = nullptr;
};

}  // namespace vma
