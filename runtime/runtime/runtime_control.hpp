#pragma once

#include "base/executor.hpp"
#include "control/control_target.hpp"
#include "control/event_feed.hpp"
#include "memory/memory.hpp"
#include "migrate/moves/mover.hpp"
#include "parking/parker.hpp"
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
  Mover& mover;
  Parker& parker;
  const MachineCosts& costs;
  Scheduler& scheduler;
  GpuMonitor& monitor;
  std::shared_ptr<EventFeed> feed;
};

/// A runtime as seen by the control socket. One thread at a time, that of the scheduler's loop;
/// moves run in the mover and drains on their own threads.
class RuntimeControl : public ControlTarget {
 public:
  explicit RuntimeControl(ControlGround ground);
  /// Stops. Requires: the mover has stopped, so that no operation is reported any more.
  ~RuntimeControl() override;

  ControlStatus status() override;
  std::vector<ControlAllocation> allocations(std::uint64_t from, std::size_t most) override;
  ControlPage select(const std::vector<Selector>& what, std::uint64_t from,
                     std::size_t most) override;
  ControlAllocation allocation(std::uint64_t address) override;
  ControlPrediction predict(const ControlMove& move) override;
  ControlStarted start_move(const ControlMove& move) override;
  /// Also throws: Error{busy} while `drains_max` of them are running.
  std::uint64_t start_drain(Location at) override;
  std::string policy() override;
  std::vector<std::string> known_policies() override;
  void set_policy(const std::string& text) override;
  void pause() override;
  void resume() override;
  std::uint64_t start_step() override;
  std::vector<ControlDecision> explain(std::uint64_t address, std::size_t most) override;
  ControlEvents events(std::uint64_t since, std::size_t most) override;
  ControlStats stats() override;

  /// Waits for the drains. Requires: the scheduler has stopped, which ends them, and no more calls
  /// are made. Idempotent.
  void stop() noexcept;

  static constexpr std::size_t drains_max = 4;

 private:
  struct Drain {
    std::unique_ptr<Task> task;
    std::atomic<bool> ended{false};
  };
  class MoveOperation;

  /// In ascending order of addresses.
  using Allocations = std::vector<std::shared_ptr<Allocation>>;

  Allocations listed() const;
  Allocations selected_by(const std::vector<Selector>& what) const;
  std::vector<ControlAllocation> page_of(const Allocations& all, std::uint64_t from,
                                         std::size_t most) const;
  ControlAllocation describe(const std::shared_ptr<Allocation>& allocation) const;
  void drain(Location at, std::uint64_t operation) noexcept;
  void forget_ended_drains();

  const ControlGround ground_;
  Clock& clock_;
  const TimePoint opened_;
  std::vector<std::unique_ptr<Drain>> drains_;
  std::set<Location> drained_;  // By peers, until the next `resume`.
};

}  // namespace vma
