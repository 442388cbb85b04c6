#pragma once

#include "base/mutex.hpp"

#include <cstddef>
#include <vector>

namespace vma {

inline namespace v1 {
class Runtime;
}

/// Pointers whose free was postponed, because of a capture or because the runtime refused it. The
/// next free without a capture frees them too. Any thread.
class DeferredFrees {
 public:
  /// Never fails. If there is no memory to remember the pointer, leaks it and logs that.
  void keep(void* pointer) noexcept;
  /// Frees the kept pointers; those that are refused again stay. Blocks: like `Runtime::free`.
  void free_all(Runtime& runtime) noexcept;
  std::size_t count();

 private:
  Mutex mutex_;  // Not held during a free.
  std::vector<void*> kept_ VMART_GUARDED_BY(mutex_);
};

/// Frees the pointer, or keeps it for later if the free is refused now. Blocks: like
/// `Runtime::free`.
void free_or_keep(Runtime& runtime, void* pointer, DeferredFrees& late) noexcept;

}  // namespace vma
