#pragma once

#include "migrate/mover.hpp"
#include "migrate/transaction.hpp"

#include <deque>
#include <vector>

namespace vma {

/// One synchronous migration under way: what `Mover::move` does, step by step. One thread.
class HeldMove {
 public:
  HeldMove(Mover& mover, Allocation& allocation, SlotRange range, Location to,
           const MigrateOptions& options);

  /// Throws: Error with the report.
  MigrationReport run();

 private:
  void plan();
  void prepare();
  void require_room();
  void move_held() VMART_NO_THREAD_ANALYSIS;
  void move_unheld();
  void pipeline(Hold* hold);
  void start(Transaction& transaction);
  void finish(Transaction& transaction, Hold* hold);
  void await_copy(Transaction& transaction, Hold& hold);
  void note_failure(const Transaction& transaction, const std::exception& error);
  void summarise();
  Error with_report(const Error& error);

  Mover& mover_;
  Memory& memory_;
  Clock& clock_;
  Allocation& allocation_;
  const SlotRange range_;
  const Location to_;
  const MigrateOptions& options_;
  MigrationReport report_;
  TimePoint begun_{0};                    // The first copy.
  TimePoint let_through_{0};              // When a grant or unmap of ours last returned.
  std::deque<Transaction> transactions_;  // In order of their slots.
};

}  // namespace vma
