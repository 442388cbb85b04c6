#pragma once

#include "memory/allocation.hpp"
#include "memory/pressure.hpp"

#include <vma/error.hpp>
#include <vma/migration.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace vma {

class GroupAccount;

/// Slots [first, end) of an allocation.
struct SlotRange {
  std::size_t first = 0;
  std::size_t end = 0;
};

/// Which party chose where a move goes.
enum class PlaceChoice {
  program,  ///< The users of the memory know of it: from then on this is where it is wanted.
  former,   ///< It goes back to where it was before.
  runtime,  ///< Refused if a user of the memory could no longer reach it (`Reach`).
};

/// What the runtime itself asks of a move, beyond what its users can.
struct MigrationTerms {
  /// If a GPU is full, asks for room (`MemoryPressure`). False for moves that make room themselves:
  /// those would wait for each other.
  bool asks_for_room = true;
  MemoryPressure::Want::Asks asks() const noexcept {
    using enum MemoryPressure::Want::Asks;
    return asks_for_room ? a_move : never;
  }
  /// What another thread moves or frees is waited for; otherwise it stays.
  bool waits_for_claims = true;
  /// Refused where copies of the program may have no guard (`CopyScopes`). False for a move that
  /// the program cannot go on without or waits for itself, and once the caller has asked.
  bool requires_guards = true;
  /// The source chunks go back to the driver instead of the cache.
  bool gives_back = false;
  /// Like `MigrateOptions::keep_clean_copy`, without requiring it in the options.
  bool keeps_copy = false;
  /// A number that tells chunk watchers which operation asked for the move; 0: none.
  std::uint64_t operation = 0;
  /// A policy asked for it, and the scheduler tracks it.
  bool by_policy = false;
  PlaceChoice choice = PlaceChoice::program;
};

/// One of several ranges that are asked to move together.
struct RequestedRange {
  std::shared_ptr<Allocation> allocation;
  SlotRange range;
  Place to;
};

/// What became of one.
struct RangeResult {
  MigrationReport report;
  std::optional<Error> error;  ///< None if it moved in full.
};

/// One migration that is to run in the background.
struct NewMigration {
  RequestedRange what;
  MigrateOptions options;
  MigrationTerms terms;
  std::shared_ptr<GroupAccount> group;  ///< That it is one of; null if it is none.
  /// It may not move: its task has ended in this error from the beginning.
  std::optional<Error> refusal;
};

}  // namespace vma
