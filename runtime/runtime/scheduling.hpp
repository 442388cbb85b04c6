#pragma once

#include "control/control_server.hpp"
#include "control/event_feed.hpp"
#include "costs/cost_source.hpp"
#include "memory/memory.hpp"
#include "migrate/moves/mover.hpp"
#include "parking/parker.hpp"
#include "recording/decision_log.hpp"
#include "recording/recording.hpp"
#include "recording/perfetto_writer.hpp"
#include "runtime/runtime_control.hpp"
#include "runtime/settings.hpp"
#include "scheduling/scheduler.hpp"
#include "scheduling/scheduler_loop.hpp"
#include "telemetry/use_log.hpp"

#include <memory>
#include <string>

namespace vma {

/// The scheduler of a runtime with all that belongs to it: its thread, and what it leaves of
/// itself. There where a policy was asked for.
class Scheduling {
 public:
  /// Throws: Error{invalid_argument} for a policy that is none.
  Scheduling(Driver& driver, Memory& memory, Mover& mover, Parker& parker, UseLog& uses,
             const SourcedCosts& sourced, GpuMonitor& monitor, const Settings& settings);
  /// As `stop`. Requires: the mover has stopped.
  ~Scheduling();

  Scheduler& scheduler() noexcept { return scheduler_; }
  /// What peers of the control socket see. Requires: a single thread asks, which is the loop's
  /// unless the scheduler is stepped by hand.
  ControlTarget& control() noexcept { return control_; }
  /// Of the control socket; empty where there is none.
  std::string control_path() const;
  /// Ends the thread and the control socket, and has nobody wait any more: nothing is decided from
  /// here on. Idempotent.
  void stop() noexcept;
  /// At the end of the process: writes the files and removes the socket's path. Joins no thread and
  /// calls no driver. Blocks: as the disk does.
  void finish_output() noexcept;

 private:
  void begin_loop(const Settings& settings);
  void flush_trace_now_and_then() noexcept;

  Driver& driver_;
  Mover& mover_;
  const std::unique_ptr<PerfettoWriter> trace_;  // Null: none is kept.
  const std::shared_ptr<EventFeed> feed_;
  DecisionLog decisions_;
  const std::unique_ptr<Recording> recording_;  // Null: nothing is recorded.
  Scheduler scheduler_;
  RuntimeControl control_;
  std::unique_ptr<SchedulerLoop> loop_;    // Null where it is stepped by hand.
  std::unique_ptr<ControlServer> server_;  // Lives on the loop's context. Null: no socket.
  SteadyClock wall_clock_;
  TimePoint flushed_{0};  // The trace; the loop's.
};

}  // namespace vma
