#pragma once

#include "base/mutex.hpp"

#include <vma/migration.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vma {

/// The hooks of one allocation, called around the move of each of its chunks in the order in which
/// they were added. Any thread; no lock is held while a hook runs, so a hook may add and remove.
class HookList {
 public:
  HookList() = default;
  HookList(const HookList&) = delete;
  HookList& operator=(const HookList&) = delete;

  /// Returns what names them here; never used again.
  std::uint64_t add(MoveHooks hooks);
  /// On return they run no more. Blocks: while one of them runs on another thread; from inside one
  /// of them it returns at once, and they end with that call. Nothing if there are none of that id.
  void remove(std::uint64_t id);
  /// As `remove`, but does not wait for one that runs: for the end of the process.
  void disable(std::uint64_t id) noexcept;
  bool empty() const;
  /// Whether this thread is inside one of them.
  bool runs_here() const noexcept;
  /// Whether this thread is inside a hook of any list.
  static bool any_runs_here() noexcept;

  /// Runs each `before`. Throws: what the first of them throws, once those that came before it have
  /// been told by `after` that the chunk has stayed.
  void before(const MoveEvent& event);
  /// Runs each `after`. What one throws is logged; returns how many threw.
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
