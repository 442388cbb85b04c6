#pragma once

#include "migrate/copying/live_copiers.hpp"
#include "migrate/stops/stall_budget.hpp"
#include "migrate/stops/stall_forecast.hpp"
#include "migrate/migration/stops.hpp"
#include "migrate/migration/callbacks.hpp"
#include "migrate/migration/exporter_moves.hpp"
#include "migrate/migration/move_observers.hpp"
#include "migrate/migration/reach.hpp"

#include <vma/migration.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace vma {

/// Limits for moves.
struct MigratorLimits {
  static constexpr std::chrono::milliseconds limit_max =
      std::chrono::days(1);  // Times add up to limits.
  std::chrono::nanoseconds hold_limit = std::chrono::seconds(2);
  std::chrono::nanoseconds gate_limit = std::chrono::milliseconds(5);
  /// Tries that ran out of time double the limit up to this; zero keeps it as it is.
  std::chrono::nanoseconds gate_limit_max{0};
  int gate_retries = 8;
  std::chrono::nanoseconds max_stall = std::chrono::microseconds(5'500);  ///< Of one stop.
  int copy_share_percent = 50;
  std::chrono::nanoseconds stall_budget{0};  ///< Per second; zero means no budget.
  std::uint64_t copy_budget_bytes = 0;       ///< Per second; zero means no budget.
  /// Moves suspend the work of the process instead of holding its contexts or closing gates.
  bool suspends = false;
  bool prepares_gates = false;        ///< What gates need is created once streams are attached.
  bool prepares_suspensions = false;  ///< What suspensions need, once there is memory.
  LiveTuning tuning{};

  /// How long a stream may take to finish what was launched before a gate, and how long a chunk may
  /// be pinned, unless the options have a deadline.
  static constexpr std::chrono::seconds progress_limit{30};

  /// The limits of a hold with these options.
  HoldLimits of_hold(const MigrateOptions& options) const;
  /// The limits of a gate in its place, which may be closed for so long.
  GatedLimits of_gate(const MigrateOptions& options, std::chrono::nanoseconds patience) const {
    return {of_hold(options).rest_limit, patience, gate_limit, gate_limit_max};
  }
  /// How long the tries to stop for a chunk of a live move may take.
  std::chrono::nanoseconds patience_with_gates(const MigrateOptions& options) const;
};

/// What the migrations of one runtime use together. Each part outlives them, and is safe for any
/// thread.
struct MigrationParts {
  MigrationParts(Memory& memory, CopyEngine& engine, const MigratorLimits& limits);
  MigrationParts(const MigrationParts&) = delete;
  MigrationParts& operator=(const MigrationParts&) = delete;

  /// How long a suspension takes alone: as the last ones did, or else as the checks have measured.
  StallForecast::Suspending suspending() const { return forecast.suspending(stops.suspending()); }

  Memory& memory;
  CopyEngine& engine;
  const MigratorLimits limits;
  const std::shared_ptr<Callbacks> callbacks;
  LiveCopiers copiers;
  Stops stops;
  const Reach reach;
  StallBudget budget;
  StallForecast forecast;
  MoveObservers observers;
  /// Null: they keep memory in place.
  ExporterMoves* importers() const noexcept { return importers_; }
  void lead(ExporterMoves* importers) noexcept { importers_ = importers; }

 private:
  std::atomic<ExporterMoves*> importers_{nullptr};
};

}  // namespace vma
