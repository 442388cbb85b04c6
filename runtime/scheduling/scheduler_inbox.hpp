#pragma once

#include "base/ids.hpp"
#include "base/mutex.hpp"
#include "memory/memory.hpp"
#include "migrate/migration/move_observers.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

namespace vma {

/// Events about allocations, passed in order from any thread to the scheduler. Takes none of the
/// scheduler's locks, so callers may hold their own.
class SchedulerInbox : public MemoryWatcher {
 public:
  struct Event {
    enum class Kind { made, freed, changed, step };
    Kind kind = Kind::made;
    Address begin{};
    std::weak_ptr<Allocation> allocation;  ///< Of `made`.
    ChunkStep step;                        ///< Of `step`.
  };

  void made(const std::shared_ptr<Allocation>& allocation) noexcept override;
  void freed(Address begin) noexcept override;
  void changed(const Allocation& allocation) noexcept override;
  /// Keeps what is recorded: stops of streams, and moves of chunks without a decision.
  void stepped(const ChunkStep& step) noexcept;
  /// A stream was attached or detached: any allocation may be in scope now, or out of it.
  void scope_changed() noexcept { scope_changed_ = true; }
  bool take_scope_changed() noexcept { return scope_changed_.exchange(false); }

  /// Calls the function set by `wake_with`: an event should be handled soon.
  void wake() noexcept;
  /// `wake` must not throw nor call this. An empty one removes it. Blocks: while the former runs.
  void wake_with(std::function<void()> wake);

  /// Appends all events since the last call. Throws: std::bad_alloc; then they stay here.
  void take(std::vector<Event>& events);
  /// There was no memory for an event: from `found_missed` on, the caller must look up the state
  /// anew.
  bool missed() const noexcept { return missed_; }
  void found_missed() noexcept { missed_ = false; }

 private:
  void post(Event event) noexcept;

  Mutex mutex_;
  std::vector<Event> events_ VMART_GUARDED_BY(mutex_);
  Mutex wake_mutex_;  // Held during the call; no other lock of ours is taken under it.
  std::function<void()> wake_ VMART_GUARDED_BY(wake_mutex_);
  std::atomic<bool> scope_changed_{false}, missed_{false};
};

}  // namespace vma
