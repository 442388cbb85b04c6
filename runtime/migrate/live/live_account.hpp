#pragma once

#include "migrate/gates/gate.hpp"
#include "migrate/live/live_chunk.hpp"
#include "migrate/migration/migration_task.hpp"
#include "migrate/migration/move_parts.hpp"

#include <vma/migration.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>

namespace vma {

/// What one migration of a live move has done and what it has cost: fills the report, and notifies
/// the watchers of each chunk. Only the thread of the move calls it.
class LiveAccount {
 public:
  /// `report` is the task's initial report.
  LiveAccount(const MoveParts& parts, const MigrationTask& task, const Allocation& allocation,
              MigrationReport& report);

  /// Chunks leave `from`.
  void crosses(Location from);
  /// Memory is allocated for the chunk from now on. Once for each chunk; later calls do nothing.
  void begun(LiveChunk& chunk) noexcept;
  /// All streams were stopped for chunks of this migration, which switched or not.
  void stood(StopKind kind, const GateTimes& times) noexcept;
  /// Tells the watchers of that stop. Once for each: its batch may have chunks of several
  /// migrations.
  void tell_stood(const LiveChunk& first, const GateTimes& times, std::size_t streams) noexcept;
  void gave_up(StopRefusal why) noexcept;
  /// The chunk is at its target, by a live copy if `copied_twice` says how many bytes of it had to
  /// be copied again.
  void moved(LiveChunk& chunk, std::optional<std::uint64_t> copied_twice) noexcept;
  /// The source chunk is kept as a clean copy.
  void kept_copy() noexcept { ++report_.copies_kept; }
  /// The error that ends the move; a cancellation is none.
  void failed(const LiveChunk& chunk, const std::exception& error) noexcept;
  /// A chunk that was begun and has not moved stayed where it was. After `moved` it does nothing.
  void stayed(LiveChunk& chunk) noexcept;
  /// The move has ended and took `wall`; it was to move `chunks`. Logs how long its phases took.
  void finish(std::chrono::nanoseconds wall, std::size_t chunks) noexcept;

 private:
  ChunkStep step_of(const LiveChunk& chunk, ChunkStep::Kind kind) const;
  void count(std::string_view reason) noexcept;
  void log_phases() const;

  const MoveParts& parts_;
  const MigrationTask& task_;
  const Allocation& allocation_;
  Clock& clock_;
  MigrationReport& report_;
  StopStats stats_;
};

}  // namespace vma
