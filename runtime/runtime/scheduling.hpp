#pragma once

#include "base/part.hpp"
#include "control/control_server.hpp"
#include "control/event_feed.hpp"
#include "costs/cost_source.hpp"
#include "memory/memory.hpp"
#include "migrate/moves/migrator.hpp"
#include "parking/parker.hpp"
#include "recording/decision_log.hpp"
#include "recording/recording.hpp"
#include "base/perfetto_trace.hpp"
#include "runtime/runtime_control.hpp"
#include "runtime/settings.hpp"
#include "scheduling/scheduler.hpp"
#include "scheduling/scheduler_loop.hpp"
#include "telemetry/use_log.hpp"

#include <memory>
#include <string>

namespace vma {

/// The scheduler of a runtime with everything that belongs to it: its thread and its outputs.
/// Exists only if a policy is configured.
class Scheduling final : public Part {
 public:
  /// Throws: Error{invalid_argument} for an unknown policy.
  Scheduling(Driver& driver, Memory& memory, Backings& backings, Migrator& migrator, Parker& parker,
             UseLog& uses, const SourcedCosts& sourced, GpuMonitor& monitor,
             const Settings& settings);
  /// Ends what was not ended. Requires: the migrator has stopped.
  ~Scheduling();

  Scheduler& scheduler() noexcept { return scheduler_; }
  SchedulerStats stats() const;
  /// What peers of the control socket see. Requires: a single thread calls it, which is the loop's
  /// unless the scheduler is stepped by hand.
  ControlTarget& control() noexcept { return control_; }
  /// Path of the control socket; empty if there is none.
  std::string control_path() const;
  /// Ends the thread, the control socket, and all waits of other threads: nothing is decided from
  /// here on. Idempotent.
  void stop_accepting() noexcept override;
  /// Nobody reports to it any more. Requires: the migrator has finished. Idempotent.
  void release() noexcept override;
  /// At process exit: writes the files and removes the socket's path. Joins no thread and makes no
  /// driver calls. Blocks: on the disk.
  void finish_output() noexcept;

 private:
  void begin_loop(const Settings& settings);
  void flush_trace_now_and_then() noexcept;
  void let_go() noexcept;
  /// Whether the files have all that they shall.
  struct Written {
    bool recording, decisions;
  };
  /// Blocks: on the disk, for two seconds at most.
  Written write_out() noexcept;

  Driver& driver_;
  Migrator& migrator_;
  const std::unique_ptr<PerfettoWriter> trace_;  // Null: no trace.
  const std::shared_ptr<EventFeed> feed_;
  DecisionLog decisions_;
  const std::unique_ptr<Recording> recording_;  // Null: nothing is recorded.
  Scheduler scheduler_;
  RuntimeControl control_;
  std::unique_ptr<SchedulerLoop> loop_;    // Null if stepped by hand.
  std::unique_ptr<ControlServer> server_;  // Lives on the loop's context. Null: no socket.
  SteadyClock wall_clock_;
  TimePoint flushed_{0};  // When the trace was flushed; for the loop.
};

}  // namespace vma
