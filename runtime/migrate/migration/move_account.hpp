#pragma once

#include "migrate/migration/callbacks.hpp"
#include "migrate/migration/move_observers.hpp"
#include "migrate/migration/requests.hpp"
#include "migrate/migration/transaction.hpp"

#include <vma/migration.hpp>

#include <exception>
#include <functional>
#include <set>

namespace vma {

// What reports, watchers and callers are told of a migration, however its chunks move. One thread
// at a time has a report.

/// The report of a migration of the range of which nothing has moved yet.
MigrationReport report_of(const Allocation& allocation, SlotRange range);
/// Chunks of the range leave these places.
void note_routes(MigrationReport& report, const std::set<Place>& sources, Place to);
/// The chunk has switched.
void note_moved(MigrationReport& report, const Transaction& chunk) noexcept;
/// The chunk has failed for this reason. Requires: there is room among the failures.
void note_failure(MigrationReport& report, const Transaction& chunk,
                  const std::exception& error) noexcept;
/// The error of a migration that was to end early: it was cancelled, or its memory is being freed.
std::exception_ptr cancelled_after(const MigrationReport& report, const Allocation& allocation,
                                   const char* call) noexcept;

MigrationProgress progress_of(const MigrationReport& report) noexcept;
/// Calls back with the progress, on the completion thread; an empty function is none. If the host
/// has no memory for that, it counts as a callback that failed.
void tell_progress(Callbacks& callbacks,
                   const std::function<void(const MigrationProgress&)>& on_progress,
                   const MigrationReport& report) noexcept;

/// What watchers are told of a chunk, but its times. For `stayed`: with the reason.
ChunkStep step_of(const Transaction& chunk, ChunkStep::Kind kind, const MigrationReport& report,
                  const MigrationTerms& terms) noexcept;

}  // namespace vma
