#pragma once

#include "driver/driver.hpp"

#include <memory>

namespace vma {

class Allocation;

/// Who follows which allocations there are: the layers above, by `Memory::watch`. Called on the
/// thread that makes, frees or changes one, with no lock of the memory held; a move claim of the
/// allocation may be. Must not throw, nor wait for a move.
class MemoryWatcher {
 public:
  virtual ~MemoryWatcher() = default;
  /// It is registered; its pointer has not been given to anybody yet.
  virtual void made(const std::shared_ptr<Allocation>& allocation) noexcept = 0;
  /// It is about to be forgotten; its addresses cannot be another's before this returns. What
  /// lives when the runtime shuts down is not told.
  virtual void freed(Address begin) noexcept = 0;
  /// What keeps it where it is, or what may be done with it, is another than before: a pin, a view,
  /// an export, a hook, a read-only scope.
  virtual void changed(const Allocation&) noexcept {}
};

}  // namespace vma
