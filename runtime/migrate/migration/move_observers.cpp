#include "migrate/migration/move_observers.hpp"

#include "base/log.hpp"
#include "memory/allocation.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

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

MoveNotices::~MoveNotices() {
  while (!open_.empty()) after(open_.begin()->first, false);
}

void MoveNotices::before(std::size_t slot, Place from, Place to) {
  if (allocation_.hooks().empty() || open_.contains(slot)) return;
  MoveEvent event;
  event.pointer = to_pointer(allocation_.begin());
  event.offset = slot * allocation_.geometry().chunk_bytes;
  event.bytes = allocation_.geometry().slot_bytes(slot);
  event.from = from;
  event.to = to;
  event.generation = allocation_.generation(slot);
  // Recorded first: once `before` was called for a hook, `after` must be, whatever fails meanwhile.
  const auto noted = open_.emplace(slot, event).first;
  try {
    allocation_.hooks().before(event);
  } catch (const std::exception& error) {
    open_.erase(noted);
    throw Error(ErrorKind::cancelled, "vma::migrate",
                fmt::format("a hook refused to move the chunk at offset {}: {}", event.offset,
                            error.what()));
  } catch (...) {
    open_.erase(noted);
    throw Error(ErrorKind::cancelled, "vma::migrate",
                fmt::format("a hook refused to move the chunk at offset {}", event.offset));
  }
}

void MoveNotices::after(std::size_t slot, bool moved) noexcept {
  const auto found = open_.find(slot);
  if (found == open_.end()) return;
  MoveEvent event = found->second;
  open_.erase(found);
  event.moved = moved;
  event.dropped = allocation_.dropped(slot);
  event.generation = allocation_.generation(slot);
  callbacks_.count_failures(allocation_.hooks().after(event));
}

}  // namespace vma
