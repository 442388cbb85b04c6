#pragma once

#include "base/mutex.hpp"

#include <vma/migration.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vma {

/// The hooks of one allocation, called around the move of each of its chunks in the order in which
/// they were added. Any thread; no lock is held while a hook runs, so hooks may add and remove
/// hooks.
class HookList {
 public:
  HookList() = default;
  HookList(const HookList&) = delete;
  HookList& operator=(const HookList&) = delete;

  /// Returns an id for `remove`; ids are never reused.
  std::uint64_t add(MoveHooks hooks);
  /// After this returns, the hooks no longer run. Blocks: while one of them runs on another thread;
  /// called from inside one of them, it returns at once, and they end with that call. Does nothing
  /// if the id is unknown.
  void remove(std::uint64_t id);
  /// Like `remove`, but does not wait for a running hook: for process exit.
  void disable(std::uint64_t id) noexcept;
  bool empty() const;
  /// Whether this thread is inside one of the hooks.
  bool runs_here() const noexcept;
  /// Whether this thread is inside a hook of any list.
  static bool any_runs_here() noexcept;

  /// Runs each `before`. Throws: what the first failing one throws, after telling those before it
  /// through `after` that the chunk has stayed.
  void before(const MoveEvent& event);
  /// Runs each `after`. Logs what they throw; returns how many threw.
  std::size_t after(const MoveEvent& event) noexcept;

 private:
  struct Entry {
    std::uint64_t id = 0;
    MoveHooks hooks;
    int running = 0;  // Guarded by the list's mutex.
  };
  class Call;

  std::shared_ptr<Entry> next(std::uint64_t after_id) const VMART_REQUIRES(mutex_);
  std::size_t run_after(const MoveEvent& event, std::uint64_t end_id) noexcept;

  mutable Mutex mutex_;
  Condition ended_;                                                       // A call of a hook.
  std::vector<std::shared_ptr<Entry>> entries_ VMART_GUARDED_BY(mutex_);  // By id.
  std::uint64_t last_id_ VMART_GUARDED_BY(mutex_) = 0;
};

}  // namespace vma
