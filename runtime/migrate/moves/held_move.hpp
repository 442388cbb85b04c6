#pragma once

#include "migrate/migration/move_parts.hpp"
#include "migrate/migration/transaction.hpp"
#include "migrate/moves/ahead_copies.hpp"

#include <deque>
#include <vector>

namespace vma {

/// One migration under a hold: implements `Mover::move`, step by step. One thread, which has the
/// allocation's move claim and `operations()`.
class HeldMove {
 public:
  HeldMove(const MoveParts& parts, Allocation& allocation, SlotRange range, Location to,
           const MigrateOptions& options, const MoveTerms& terms, MigrationReport& report,
           const MigrationTask* task = nullptr);

  /// `task`, if not null, may cancel it. Throws: Error with the report, which is right whatever it
  /// throws, including std::bad_alloc.
  void run();

 private:
  void move_all();
  void plan();
  void prepare();
  void take_targets();
  void require_room(MemoryPressure::Want& want);
  void give_sources_up() noexcept;
  void move_held();
  void move_unheld();
  void pipeline(Hold* hold);
  void start(Transaction& transaction);
  void finish(Transaction& transaction, Hold* hold);
  void await_copy(Transaction& transaction, Hold* hold);
  void end_copies() noexcept;
  bool ended() const;
  void note_failure(const Transaction& transaction, const std::exception& error) noexcept;
  void conclude(TimePoint start) noexcept;
  void summarise() noexcept;
  void tell_begun() noexcept;
  void tell_ended() noexcept;
  ChunkStep step_of(const Transaction& transaction, ChunkStep::Kind kind) const;

  const MoveParts& parts_;
  Memory& memory_;
  Clock& clock_;
  Allocation& allocation_;
  const SlotRange range_;
  const Location to_;
  const MigrateOptions& options_;
  const MoveTerms& terms_;
  const MigrationTask* const task_;  // Null for callers that wait.
  MigrationReport& report_;
  bool pipelined_ = false;
  TimePoint begun_{0};  // Start of the first copy.
  HeldTimes held_;
  TimePoint let_through_{0};              // When a grant or unmap of ours last returned.
  std::deque<Transaction> transactions_;  // In order of their slots.
  AheadCopies ahead_;                     // Not used if nothing runs.
};

}  // namespace vma
