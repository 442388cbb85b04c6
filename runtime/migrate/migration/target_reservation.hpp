#pragma once

#include "migrate/migration/migration_task.hpp"
#include "migrate/migration/move_parts.hpp"
#include "migrate/migration/requests.hpp"
#include "migrate/migration/reserved_targets.hpp"

#include <vma/migration.hpp>

#include <cstddef>
#include <exception>
#include <functional>
#include <set>
#include <utility>

namespace vma {

/// For those that could move, if another request of a call with `all_or_nothing` cannot.
Error nothing_moves(const char* call);

/// Several migrations that begin all, or not at all.
class JointMoves {
 public:
  virtual ~JointMoves() = default;
  virtual std::size_t count() const noexcept = 0;
  virtual RequestedRange wanted(std::size_t which) const = 0;
  virtual ReservedTargets& targets(std::size_t which) noexcept = 0;
  /// Runs `body` with the move claim of the allocation. Throws: Error{cancelled} if the migration
  /// is no longer wanted. Blocks: while another thread has the claim.
  virtual void with_claim(std::size_t which, const std::function<void()>& body) = 0;
  /// The migration may not begin, for this reason.
  virtual void refuse(std::size_t which, std::exception_ptr why) noexcept = 0;
};

/// Takes the target memory of several migrations before any of them begins. One thread; nothing is
/// stopped.
class TargetReservation {
 public:
  /// `call` is the public call that errors name.
  TargetReservation(const MoveParts& parts, const MigrateOptions& options, const MoveTerms& terms,
                    const char* call);

  /// Each migration has its targets then, or, if one of them may not move or gets no memory, each
  /// is refused: that one for its reason, the others with an Error{cancelled}. Returns whether they
  /// may begin. Blocks: for room.
  bool make(JointMoves& moves) noexcept;

 private:
  using Slots = std::set<std::pair<const Allocation*, std::size_t>>;

  void require_room(const JointMoves& moves);
  void require_movable(const RequestedRange& wanted) const;
  void take(const RequestedRange& wanted, ReservedTargets& targets);

  const MoveParts& parts_;
  const bool waits_for_pins_;
  const MoveTerms terms_;
  const char* const call_;
  MemoryPressure::Want want_;
  Slots taken_;  // Several ranges may name a slot.
};

}  // namespace vma
