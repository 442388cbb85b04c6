#pragma once

#include "lab/replay/link_traffic.hpp"
#include "lab/replay/replay_account.hpp"
#include "lab/replay/replay_devices.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_memory.hpp"
#include "lab/replay/replay_moves.hpp"
#include "lab/replay/replay_options.hpp"
#include "lab/replay/replay_report.hpp"
#include "lab/replay/replay_scheduler.hpp"
#include "lab/replay/router.hpp"
#include "lab/trace/trace_source.hpp"

#include <vma/policy.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

namespace vma {

/// Replays a trace on a machine with a policy, in virtual time, and predicts what would have
/// happened. A device performs accesses without a duration one at a time, in order of arrival, as
/// fast as memory allows; one with a duration runs beside the others, and is spread over that time
/// unless memory is slower. An access passes over its range from front to back, at the rate that
/// the links give it beside all other accesses and moves. Deterministic: the same inputs give the
/// same report. docs/guide/replay.md says what is not modelled. Not thread-safe; one replay of one
/// trace.
///
/// This class takes in the trace and steps through time; its parts own what happens at a time.
class Replay {
 public:
  /// Requires: all arguments outlive it. `policy` has no history.
  Replay(const ReplayMachine& machine, const ReplayOptions& options, std::unique_ptr<Policy> policy,
         std::unique_ptr<Router> router);
  Replay(const Replay&) = delete;  // Its parts refer to each other.
  Replay& operator=(const Replay&) = delete;

  /// Throws: what the source throws; Error{invalid_argument} for a trace without events, and for an
  /// event that does not fit those before it or is beyond a limit.
  ReplayReport run(TraceSource& source);

 private:
  bool read_head();
  void admit();
  /// False: it has to wait.
  bool take(const TraceEvent& event);
  bool take_access(const TraceEvent& event);
  Time next_admission() const;
  void end_flow();
  void end_moves();

  const ReplayOptions options_;
  Time now_{0};
  ReplayAccount account_;
  ReplayScheduler scheduler_;
  LinkTraffic traffic_;
  ReplayMoves moves_;
  ReplayMemory memory_;
  ReplayDevices devices_;
  TaskRouter router_;

  // The trace.
  TraceSource* source_ = nullptr;
  std::span<const TraceEvent> batch_;
  std::size_t head_ = 0;
  bool more_ = true;
  std::optional<std::size_t> head_device_;  // The router has chosen it already.
};

}  // namespace vma
