#pragma once

#include "memory/allocation.hpp"
#include "migrate/gates/attached_streams.hpp"
#include "migrate/moves/migration_task.hpp"

#include <vma/migration.hpp>

#include <cstddef>
#include <memory>

namespace vma {

// What calls of the public interface ask of their arguments. All throw vma::Error.

/// Error{unknown_pointer} where a free of it has begun.
void check_usable(const Allocation& allocation, const char* call);
/// Error{poisoned} where a slot of it is lost.
void check_not_poisoned(const Allocation& allocation, const char* call);
/// Error{dropped} where a slot of the range has no memory.
void check_not_dropped(const Allocation& allocation, SlotRange range, const char* call);
/// The same for all of it.
void check_not_dropped(const Allocation& allocation, const char* call);
/// Error{invalid_argument} inside a hook of it: the move waits for the hook, and this call for the
/// move.
void check_no_hook(Allocation& allocation, const char* call);
/// The slots of `bytes` from `offset`. Error{invalid_argument} where that is not within it.
SlotRange slots_of(const Allocation& allocation, std::size_t offset, std::size_t bytes,
                   const char* call);
/// Error{invalid_argument} for a deadline that is none.
void check_options(const MigrateOptions& options, const char* call);
/// What forbids a move in the background at once: Error{unknown_pointer, poisoned, pinned};
/// {invalid_argument} where no stream is attached that may use it, and none is held; {unsupported}
/// for a live one under a hold.
void check_background_move(const Allocation& allocation, const AttachedStreams& attached,
                           const MigrateOptions& options, const char* call);

}  // namespace vma
