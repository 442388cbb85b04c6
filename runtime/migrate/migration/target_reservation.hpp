#pragma once

#include "migrate/migration/requests.hpp"
#include "migrate/migration/transaction.hpp"

#include <vma/error.hpp>
#include <vma/migration.hpp>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>

namespace vma {

struct MigrationParts;
inline namespace v1 {
class MigrationTask;
}

/// One of several migrations that begin all, or not at all.
struct JointMove {
  RequestedRange wanted;
  ReservedTargets& targets;
  std::exception_ptr& refusal;  ///< Set if it may not begin.
};

/// Runs `body` with the move claim of that move's allocation. Throws: Error{cancelled} if it is no
/// longer wanted. Blocks: while another thread has the claim.
using WithClaim = std::function<void(std::size_t which, const std::function<void()>& body)>;

/// Takes the target memory of several migrations before any of them begins. Each has its targets
/// then, or, if one of them may not move or gets no memory, each is refused: that one for its
/// reason, the others with an Error{cancelled}. Returns whether they may begin. `call` is the
/// public call that errors name. Blocks: for room. Requires: nothing is stopped.
bool reserve_targets(MigrationParts& parts, const MigrateOptions& options,
                     const MigrationTerms& terms, const char* call,
                     std::span<const JointMove> moves, const WithClaim& with_claim) noexcept;
/// The same for the tasks of a group in the background, none of which has begun. Blocks: also while
/// another thread has the claim of one of their allocations.
void reserve_targets(MigrationParts& parts,
                     std::span<const std::shared_ptr<MigrationTask>> tasks) noexcept;

/// For those that could move, if another request of a call with `all_or_nothing` cannot.
Error nothing_moves(const char* call);

}  // namespace vma
