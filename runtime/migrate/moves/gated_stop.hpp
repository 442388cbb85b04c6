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
class GatedStop {
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

 private:
  std::optional<GateRefusal> attempt(const std::function<void(StoppedWork&)>& body);
  std::optional<GateRefusal> close(Gate& gate, GateStreams& streams, SlowCallTurn& slow_calls,
                                   GatePost& post) const;
  void prepare_for_next(const GateRefusal& refusal);

  const MoveParts& parts_;
  Clock& clock_;
  const Allocation& allocation_;
  const Limits limits_;
  TimePoint deadline_{0};
  std::chrono::nanoseconds gate_limit_;
  int tries_ = 0;
  HeldTimes times_;
  bool stood_ = false;  // Some stream was stopped in the last try.
};

}  // namespace vma
