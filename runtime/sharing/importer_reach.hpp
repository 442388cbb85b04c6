#pragma once

#include "memory/memory.hpp"
#include "migrate/moves/migrator.hpp"
#include "sharing/share_channel.hpp"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace vma {

/// What exports use of their runtime.
struct ExportParts {
  Memory& memory;
  Migrator& migrator;
  const PlaceNames& names;
};

/// Brings an allocation to where one importer can map it. One thread.
class ImporterReach {
 public:
  /// Requires: the parts and `who` outlive it.
  ImporterReach(const ExportParts& parts, std::shared_ptr<Allocation> allocation,
                const ImportingProcess& who)
      : parts_(parts), allocation_(std::move(allocation)), who_(who) {}

  /// Runs of slots that lie where the importer cannot map them.
  std::vector<SlotRange> beyond() const;
  /// Moves the ranges to where it can, as `vma::migrate_async` does; other importers follow.
  /// `ended` says when; nothing moves if the memory is kept where it is. Throws: Error if no place
  /// suits all, or if a move before has failed and this was to be the last, or none can succeed.
  void bring(const std::vector<SlotRange>& ranges, bool is_last);
  bool under_way() const noexcept { return !moves_.empty(); }
  /// Throws: what the moves failed with, if neither time nor another place can help.
  bool ended();

 private:
  std::optional<Place> place_for(SlotRange range) const;

  const ExportParts parts_;
  const std::shared_ptr<Allocation> allocation_;
  const ImportingProcess& who_;
  std::vector<std::shared_ptr<MigrationTask>> moves_;
  std::vector<Place> refused_;    // Places to which it could not move.
  std::optional<Error> failure_;  // Why it did not move, the last time.
};

}  // namespace vma
