#pragma once

#include "migrate/migration/importer_moves.hpp"
#include "migrate/migration/move_parts.hpp"
#include "migrate/migration/transaction.hpp"

#include <deque>
#include <span>

namespace vma {

/// Switches slots of imported memory to other chunks, while the process that exports it moves the
/// bytes: implements `Mover::follow`, step by step.
///
/// All work of this process is suspended where that is possible, or else the attached streams that
/// may use the memory stop at a gate, or, if there are none, all contexts in use are held: from
/// before the exporter copies until the move is decided. In this time the slots show the targets
/// already, and the stop is dark, so that nothing ends it: work that ran then would lose its
/// writes. So the decision only has to be noted; only after one to stay, the slots are switched
/// back. One thread, which has the allocation's move claim and `operations()`.
class HeldFollow {
 public:
  /// All arguments outlive it.
  HeldFollow(const MoveParts& parts, Allocation& allocation, const MigrateOptions& options,
             LedMove& leader);

  /// Whether the slots have switched: all, or none. Throws: Error; then none has, unless one is
  /// poisoned. What they showed before, or were to show, goes back.
  MigrationReport run(std::span<LedChunk> chunks);

 private:
  void plan(std::span<LedChunk> chunks);
  void stop_and_switch();
  void switch_all(StoppedWork& stopped);
  void show_all();
  void take_all_back(std::exception_ptr& failure) noexcept;

  const MoveParts& parts_;
  Allocation& allocation_;
  const MigrateOptions& options_;
  LedMove& leader_;
  MigrationReport report_;
  std::deque<Transaction> transactions_;
};

}  // namespace vma
