#pragma once

#include "migrate/stops/stall_budget.hpp"
#include "placement/deciding/decision_path.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace vma {

/// What a gate costs besides the predicted stall of one chunk, as measured on H200: a further
/// chunk at a gate only takes its unmap and its grants.
struct GateModel {
  Time max_stall = std::chrono::milliseconds(2);  ///< As `MigratorLimits::max_stall`.
  Time unmap = std::chrono::microseconds(18), grant = std::chrono::microseconds(27);
  std::size_t chunks_max = 32;  ///< At one gate.
};

/// Carries out the moves of one allocation in virtual time, as the `Migrator` does: one migration
/// after another, urgent ones first; chunk by chunk, each prepared and copied; as many chunks a
/// gate as fit into `max_stall`, within the stall budget, while the next ones are copied. The
/// caller stops the program for each gate.
class GateMover {
 public:
  /// Requires: `costs` outlives it.
  GateMover(const MachineCosts& costs, const GateModel& model, Time stall_budget);

  void submit(PlannedMigration group, Time now);
  /// How much of the budget of later gates may use now.
  StallBudget& budget() { return budget_; }
  /// When something is due; `Time::max()`: nothing, or the program must stand first.
  Time next() const;
  /// Whether a gate is due. Then the caller stops the program and calls `close` once it stands.
  bool wants_gate(Time now) const;
  /// Requires: `wants_gate`, and the program has stopped since `last`, the first GPU since `first`.
  void close(Time first, Time last);
  /// Opens the gate if it is time; then the program continues.
  bool open(Time now);
  /// Migrations that have ended since the last call.
  std::vector<PlannedMigration> take_ended();

  std::size_t gates() const { return gates_; }
  Time stopped() const { return stopped_; }

 private:
  struct Running {
    PlannedMigration group;
    std::vector<Time> copied;  // When the copy of each chunk ends.
    std::size_t switched = 0;
  };
  void begin_next(Time now);
  std::size_t batch() const;
  Time stall_of(std::size_t chunks) const;
  Time next_stop() const;

  const MachineCosts& costs_;
  const GateModel model_;
  StallBudget budget_;
  std::deque<PlannedMigration> wanted_, victims_;
  std::optional<Running> running_;
  std::vector<PlannedMigration> ended_;
  Time first_stood_{0}, open_at_ = Time::max();
  std::size_t gates_ = 0, at_gate_ = 0;
  Time stopped_{0};
};

}  // namespace vma
