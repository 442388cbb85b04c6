#pragma once

#include "machine/topology.hpp"
#include "memory/allocation.hpp"
#include "migrate/migration/migration_task.hpp"
#include "migrate/moves/migrator.hpp"

#include <vma/migration.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace vma {

// Checks of arguments of the public interface. All throw vma::Error.

/// Error{unknown_pointer} if a free of it has begun.
void check_usable(const Allocation& allocation, const char* call);
/// Error{poisoned} if a slot of it is lost.
void check_not_poisoned(const Allocation& allocation, const char* call);
/// Error{dropped} if a slot of the range has no memory.
void check_not_dropped(const Allocation& allocation, SlotRange range, const char* call);
/// Like the above, for the whole allocation.
void check_not_dropped(const Allocation& allocation, const char* call);
/// Error{invalid_argument} inside a hook of it: the move waits for the hook, and this call would
/// wait for the move.
void check_no_hook(Allocation& allocation, const char* call);
/// The slots of `bytes` that begin `offset` bytes after `pointer`, which is within the allocation.
/// Error{invalid_argument} if they are not, and if there are none.
SlotRange slots_of(const Allocation& allocation, const void* pointer, std::size_t offset,
                   std::size_t bytes, const char* call);
/// Error{invalid_argument} for an invalid deadline.
void check_options(const MigrateOptions& options, const char* call);
/// Like `check_options`, for a move that the caller waits for and that stops everything or nothing.
/// Error{unsupported} for a live one.
void check_held_move(const MigrateOptions& options, const char* call);
/// Like `check_options`, for a move in the background. Error{unsupported} for a live one under a
/// hold.
void check_background_options(const MigrateOptions& options, const char* call);
/// Refuses a move in the background early: Error{unknown_pointer, poisoned, pinned};
/// {invalid_argument} if the work that may use it cannot be stopped, and is not held.
void check_background_move(const Allocation& allocation, Migrator& migrator,
                           const MigrateOptions& options, const char* call);

/// Refuses what is most likely a size without its unit, or one of another GPU:
/// Error{invalid_argument}. Zero and UINT64_MAX, which is no limit, pass.
void check_capacity(const Topology& topology, Place at, std::uint64_t bytes, const char* call);

}  // namespace vma
