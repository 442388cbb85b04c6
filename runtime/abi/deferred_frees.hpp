#pragma once

#include "base/mutex.hpp"

#include <vma/device.hpp>

#include <cstddef>
#include <vector>

namespace vma {

/// Memory whose free was postponed, because of a capture or because the runtime refused it. Any
/// thread.
class DeferredFrees {
 public:
  struct Free {
    void* pointer = nullptr;
    // Of a free in stream order.
    Stream stream = nullptr;
    int device = 0;
  };

  /// Never fails. If there is no memory to remember the pointer, leaks it and logs that.
  void keep(const Free& free) noexcept;
  /// All of them, which the caller frees or keeps again. Throws: nothing.
  std::vector<Free> take_all() noexcept;
  std::size_t count();

 private:
  Mutex mutex_;
  std::vector<Free> kept_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
