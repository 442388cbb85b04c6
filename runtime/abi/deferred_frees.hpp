#pragma once

#include "base/mutex.hpp"

#include <cstddef>
#include <vector>

namespace vma {

inline namespace v1 {
class Runtime;
}

/// Pointers whose free had to wait, because of a capture or a refusal by the runtime. The next call
/// that frees without a capture frees them too. Any thread.
class DeferredFrees {
 public:
  /// Never fails; if there is no memory to remember the pointer, it is leaked and logged.
  void keep(void* pointer) noexcept;
  /// Frees the kept pointers, and keeps those that are refused again. Blocks: as `Runtime::free`.
  void free_all(Runtime& runtime) noexcept;
  std::size_t count();

 private:
  Mutex mutex_;  // Not held during a free.
  std::vector<void*> kept_ VMART_GUARDED_BY(mutex_);
};

/// Frees it, or keeps it for later if it is refused for now. Blocks: as `Runtime::free`.
void free_or_keep(Runtime& runtime, void* pointer, DeferredFrees& late) noexcept;

}  // namespace vma
