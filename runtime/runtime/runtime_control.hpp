#pragma once

#include "backings/backings.hpp"
#include "control/control_target.hpp"
#include "control/event_feed.hpp"
#include "memory/memory.hpp"
#include "migrate/moves/migrator.hpp"
#include "parking/parker.hpp"
#include "control/operation_threads.hpp"
#include "scheduling/scheduler.hpp"
#include "telemetry/gpu_monitor.hpp"

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace vma {

/// What the control socket reads and controls; all of it outlives the socket.
struct ControlGround {
  Driver& driver;
  Memory& memory;
  Backings& backings;
  Migrator& migrator;
  Parker& parker;
  const MachineCosts& costs;
  Scheduler& scheduler;
  GpuMonitor& monitor;
  std::shared_ptr<EventFeed> feed;
  bool may_load_libraries = false;  ///< By clients of the control socket.
};

/// A runtime as seen by the control socket. One thread at a time, that of the scheduler's loop;
/// moves run in the migrator, drains and changes of capacities on their own threads.
class RuntimeControl : public ControlTarget {
 public:
  explicit RuntimeControl(ControlGround ground);
  /// Stops. Requires: the migrator has stopped, so that no operation is reported any more.
  ~RuntimeControl() override;

  ControlStatus status() override;
  std::vector<ControlAllocation> allocations(std::uint64_t from, std::size_t most) override;
  ControlPage select(const std::vector<Selector>& what, std::uint64_t from,
                     std::size_t most) override;
  ControlAllocation allocation(std::uint64_t address) override;
  ControlPrediction predict(const ControlMove& move) override;
  ControlStarted start_move(const ControlMove& move) override;
  /// Also throws: Error{busy} while `OperationThreads::threads_max` operations are running.
  std::uint64_t start_drain(Place at) override;
  std::uint64_t start_capacity(Place at, std::uint64_t bytes) override;
  std::string policy() override { return ground_.scheduler.policy(); }
  std::vector<std::string> known_policies() override;
  void set_policy(const std::string& text) override;
  void pause() override;
  void resume() override;
  std::uint64_t start_step() override;
  std::vector<std::string> explain_now(std::uint64_t address) override;
  std::vector<ControlDecision> explain(std::uint64_t address, std::size_t most) override;
  ControlEvents events(std::uint64_t since, std::size_t most) override;
  ControlStats stats() override;

  /// Waits for drains and changes of capacities. Requires: the scheduler has stopped, which ends
  /// them, and no more calls are made. Idempotent.
  void stop() noexcept;

 private:
  class MoveOperation;

  /// In ascending order of addresses.
  using Allocations = std::vector<std::shared_ptr<Allocation>>;

  Allocations listed() const;
  Allocations selected_by(const std::vector<Selector>& what) const;
  std::vector<ControlAllocation> page_of(const Allocations& all, std::uint64_t from,
                                         std::size_t most) const;
  ControlAllocation describe(const std::shared_ptr<Allocation>& allocation) const;
  void require_running() const;

  const ControlGround ground_;
  Clock& clock_;
  const TimePoint opened_;
  std::vector<std::weak_ptr<MoveOperation>> operations_;  // Those that have not ended.
  std::set<Place> drained_;                               // By peers, until the next `resume`.
  std::atomic<bool> stopping_{false};
  OperationThreads threads_;  // Last: they use all of the above.
};

}  // namespace vma
