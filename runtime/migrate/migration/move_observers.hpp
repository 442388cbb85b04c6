#pragma once

#include "base/listener.hpp"
#include "migrate/migration/chunk_step.hpp"

#include <vma/migration.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace vma {

class Allocation;

/// Called for each migration that has ended, in the background or not, whatever its outcome, before
/// any thread that waits for it continues. No lock is held, but the move claim may be. It must not
/// wait for a move. What it throws is logged.
using MoveWatcher = std::function<void(const std::shared_ptr<Allocation>&, const MigrationReport&)>;

/// Notifies watchers of the outcome of moves, and keeps totals. Any thread.
class MoveObservers {
 public:
  /// One watcher at a time; an empty one removes it. Blocks: while the former is being called.
  void watch(MoveWatcher watcher);
  void watch_chunks(ChunkWatcher watcher);

  void tell(const ChunkStep& step) noexcept;
  /// Once for each migration.
  void ended(Allocation& allocation, const MigrationReport& report) noexcept;

  std::uint64_t migrations() const noexcept { return migrations_; }
  std::uint64_t bytes_moved() const noexcept { return bytes_moved_; }
  std::uint64_t bytes_copied_twice() const noexcept { return bytes_copied_twice_; }

 private:
  Listener<MoveWatcher> watcher_;
  Listener<ChunkWatcher> chunk_watcher_;
  std::atomic<std::uint64_t> migrations_{0};
  std::atomic<std::uint64_t> bytes_moved_{0};
  std::atomic<std::uint64_t> bytes_copied_twice_{0};
};

}  // namespace vma
