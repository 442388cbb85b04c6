#pragma once

#include "migrate/migration/migration_parts.hpp"
#include "migrate/moves/ahead_copies.hpp"
#include "migrate/moves/held_pipeline.hpp"
#include "migrate/moves/held_ranges.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace vma {

/// Migrations under one hold, step by step: all chunks of all ranges are copied while everything is
/// held once. Each range fails for itself; if nothing can be held, all that have chunks to move do.
/// Processes that have imported the memory follow if the range is the only one, and if the program
/// asks for the move. A background move that may stop only the attached streams is carried out here
/// for its importers, behind a gate instead of a hold.
///
/// Two ranges may name the same chunk if they go to the same place: it moves for the first of them.
/// One thread, which has the move claims and `operations()` of all allocations.
/// One owner: the steps of one stop, its importers among them, each of which needs the one before.
class HeldMigration {
 public:
  /// All arguments outlive it.
  HeldMigration(MigrationParts& parts, std::span<HeldRange* const> ranges,
                const MigrateOptions& options, const MigrationTerms& terms);

  /// Afterwards each range has its report, which is right whatever failed, and its failure.
  void run() noexcept;

  /// Whether everything was held, for however short a time.
  bool stopped() const noexcept { return held_.opened > held_.stopped; }
  std::chrono::nanoseconds stall() const noexcept { return held_.opened - held_.stopped; }
  /// The number of holds that were given up before it.
  int retries() const noexcept { return hold_report_.retries; }

 private:
  void move_all();
  template <typename Body>
  void attempt(HeldRange& range, Body&& body) noexcept;
  void plan(HeldRange& range);
  bool planned_before(const HeldRange& range, std::size_t slot) const noexcept;
  void prepare(HeldRange& range, MemoryPressure::Want& want);
  void take_targets(HeldRange& range, MemoryPressure::Want& want);
  void require_room(const HeldRange& range, MemoryPressure::Want& want);
  void choose_stop();
  void choose_suspension();
  bool may_suspend();
  CopyUnder under() const noexcept;
  void prepare_importers(HeldRange& range);
  void put_in_order();
  void move_stopped();
  void move_unheld();
  void pipeline(StoppedWork* stopped);
  void note_hold() noexcept;
  void fail_all(const std::exception_ptr& failure) noexcept;
  void conclude(TimePoint start) noexcept;
  void end_importers() noexcept;
  void end_copies() noexcept;
  void inherit_failure(HeldRange& range) noexcept;
  void give_sources_up(HeldRange& range) noexcept;
  void tell_begun() noexcept;
  void tell_ended() noexcept;
  ChunkStep step_of(HeldStep turn, ChunkStep::Kind kind) const;

  MigrationParts& parts_;
  Memory& memory_;
  Clock& clock_;
  const std::span<HeldRange* const> ranges_;
  const MigrateOptions& options_;
  const MigrationTerms& terms_;
  std::vector<HeldStep> order_;  // In which all are copied and switched.
  /// Targets that ranges before the one that prepares have still to create.
  std::map<Place, std::uint64_t> promised_bytes_;
  TimePoint begun_{0};  // Before the first copy.
  HeldTimes held_;
  MigrationReport hold_report_;  // Of the hold alone.
  AheadCopies ahead_;            // Not used if nothing runs.
  HeldPipeline pipeline_;
  bool leads_ = false;      // Processes that have imported the memory follow.
  bool suspended_ = false;  // All work is suspended, instead of held.
  bool gated_ = false;      // The attached streams stop, instead of all contexts. Only if it leads.
  std::chrono::nanoseconds decision_limit_{0};  // From their stop to the decision.
  std::unique_ptr<ExporterMove> importers_;     // Once they have been told.
};

}  // namespace vma
