#include "migrate/migration/move_observers.hpp"

#include "base/log.hpp"
#include "memory/allocation.hpp"

#include <exception>
#include <utility>

namespace vma {

void MoveObservers::watch(MoveWatcher watcher) {
  watcher_.set(watcher ? std::make_shared<MoveWatcher>(std::move(watcher)) : nullptr);
}

void MoveObservers::watch_chunks(ChunkWatcher watcher) {
  chunk_watcher_.set(watcher ? std::make_shared<ChunkWatcher>(std::move(watcher)) : nullptr);
}

void MoveObservers::tell(const ChunkStep& step) noexcept {
  chunk_watcher_.tell([&](ChunkWatcher& watcher) {
    try {
      watcher(step);
    } catch (const std::exception& error) {
      log(LogLevel::warn, "a chunk observer failed: {}", error.what());
    }
  });
}

void MoveObservers::ended(Allocation& allocation, const MigrationReport& report) noexcept {
  ++migrations_;
  bytes_moved_ += report.bytes_moved;
  bytes_copied_twice_ += report.bytes_copied_twice;
  watcher_.tell([&](MoveWatcher& watcher) {
    try {
      watcher(allocation.shared_from_this(), report);
    } catch (const std::exception& error) {
      log(LogLevel::warn, "a move observer failed: {}", error.what());
    }
  });
}

}  // namespace vma
