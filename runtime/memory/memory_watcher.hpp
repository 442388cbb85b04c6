#pragma once

#include "driver/driver.hpp"

#include <memory>

namespace vma {

class Allocation;

/// Follows which allocations exist, for the layers above; set by `Memory::watch`. Called on the
/// thread that makes, frees or changes one, without a lock of the memory; that thread may have a
/// move claim of the allocation. Must not throw, nor wait for a move.
class MemoryWatcher {
 public:
  virtual ~MemoryWatcher() = default;
  /// The allocation is registered; its pointer has not been returned to any caller yet.
  virtual void made(const std::shared_ptr<Allocation>& allocation) noexcept = 0;
  /// The allocation is about to be forgotten; no other can get its addresses before this returns.
  /// Not called for what still exists when the runtime shuts down.
  virtual void freed(Address begin) noexcept = 0;
  /// What keeps it in place, or what may be done with it, has changed: a pin, a view, an export, a
  /// hook, a read-only scope.
  virtual void changed(const Allocation&) noexcept {}
};

}  // namespace vma
