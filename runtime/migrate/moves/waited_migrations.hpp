#pragma once

#include "migrate/migration/group.hpp"
#include "migrate/migration/migration_error.hpp"
#include "migrate/migration/migration_parts.hpp"
#include "migrate/migration/requests.hpp"
#include "migrate/moves/held_ranges.hpp"

#include <span>
#include <vector>

namespace vma {

/// Moves that a thread carries out itself and waits for: under one hold, or without stopping
/// anything. For `Migrator`, and for its workers where a task asks for a hold. Any thread.
class WaitedMigrations {
 public:
  /// The parts outlive it.
  explicit WaitedMigrations(MigrationParts& parts) : parts_(parts) {}

  /// `Migrator::move`, `move_all` and `follow`.
  MigrationReport move(Allocation& allocation, SlotRange range, Place to,
                       const MigrateOptions& options, const MigrationTerms& terms);
  std::vector<RangeResult> move_all(std::span<const RequestedRange> wanted,
                                    const MigrateOptions& options, const MigrationTerms& terms,
                                    GroupAccount& account);
  MigrationReport follow(Allocation& allocation, std::span<ImporterChunk> chunks,
                         const MigrateOptions& options, ImporterMove& leader);

  /// Moves all ranges under one hold; each has its report and its failure afterwards. A range to
  /// which a hook was added meanwhile is left `untold`, for another call. Requires: the caller has
  /// the move claims; if one of several allocations has hooks, it is the only one: a hook may free
  /// other memory, and the free would wait for the claim. Blocks: for `operations()` of all, for
  /// room and for the hold.
  void run(std::span<HeldRange* const> ranges, const MigrateOptions& options,
           const MigrationTerms& terms, GroupAccount* account = nullptr) noexcept;
  /// A migration has ended: notes it in its allocation and tells the watchers.
  void note_end(Allocation& allocation, const MigrationReport& report) noexcept;

 private:
  void conclude(HeldRange& range, const MigrationTerms& terms) noexcept;
  RangeResult result_of(HeldRange& range) const noexcept;

  MigrationParts& parts_;
  const MigrationErrors errors_{"vma::migrate"};
};

}  // namespace vma
