#pragma once

#include "lab/replay/launch_uses.hpp"
#include "lab/replay/replay_account.hpp"
#include "lab/replay/replay_admission.hpp"
#include "lab/replay/replay_devices.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_memory.hpp"
#include "lab/replay/replay_moves.hpp"
#include "lab/replay/replay_options.hpp"
#include "lab/replay/replay_report.hpp"
#include "lab/replay/replay_scheduler.hpp"
#include "lab/replay/replay_tasks.hpp"
#include "lab/routing/router.hpp"
#include "lab/trace/trace_source.hpp"
#include "lab/traffic/link_traffic.hpp"

#include <vma/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace vma {

/// Replays a trace on a machine with a policy, in virtual time, and predicts the result. A device
/// performs accesses without a duration one at a time, in order of arrival, as fast as memory
/// allows. An access with a duration runs concurrently with others and is spread over that time,
/// unless memory is slower. A declared task starts when the tasks that it waits for have ended. An
/// access passes over its range from front to back, at the rate that the links provide alongside
/// all other accesses and moves. Deterministic: equal inputs give equal reports.
/// docs/guide/replay.md lists what is not modelled. Not thread-safe; one object replays one trace.
///
/// This class reads the trace and steps through time; its parts own the state of the machine.
/// One owner: the parts of the machine, and how far the trace has been read.
class Replay {
 public:
  /// Requires: all references outlive it; `policy` has no history.
  Replay(const ReplayMachine& machine, const ReplayOptions& options, std::unique_ptr<Policy> policy,
         std::unique_ptr<Router> router);
  Replay(const Replay&) = delete;  // Its parts hold references to each other.
  Replay& operator=(const Replay&) = delete;

  /// Throws: as the source; Error{invalid_argument} for a trace without events, and for an event
  /// that contradicts earlier ones or exceeds a limit.
  ReplayReport run(TraceSource& source);

 private:
  bool read_head();
  void admit();
  void read_on();
  /// Returns false if the event has to wait.
  bool take(const TraceEvent& event);
  bool take_access(const TraceEvent& event);
  bool carry_out(const TraceEvent& event);
  void do_due();
  void start_admitted();
  bool start(ReplayTasks::Index task);
  void give_hint(const TraceEvent& event, std::optional<ReplayTasks::Index> by);
  void close_declaration();
  ReplayDevices::Access access_of(const TraceEvent& event) const;
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
  ReplayTasks tasks_;
  ReplayAdmission admission_;
  LaunchUses launches_;
  ReplayDevices devices_;
  TaskRouter router_;

  // The trace.
  std::optional<ReadAhead> source_;
  std::span<const TraceEvent> batch_;
  std::size_t head_ = 0;
  bool more_ = true;
  std::optional<std::size_t> head_device_;  // Set if the router has already chosen it.

  // What a closed loop has made possible, but what waits for room.
  std::vector<ReplayTasks::Due> due_;
  std::vector<std::size_t> task_devices_;  // Of declared tasks.
};

}  // namespace vma
