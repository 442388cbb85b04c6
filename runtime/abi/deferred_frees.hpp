#pragma once

#include "base/mutex.hpp"

#include <cstddef>
#include <vector>

namespace vma {

inline namespace v1 {
class Runtime;
}

/// Pointers whose free had to wait, because something captured or the runtime refused. Whoever
/// frees next, and nothing captures then, frees them too. Any thread.
class DeferredFrees {
 public:
  /// Never fails; a pointer that there is no memory to remember is lost and logged.
  void keep(void* pointer) noexcept;
  /// Frees those kept, and keeps again what is refused. Blocks: as `Runtime::free`.
  void free_all(Runtime& runtime) noexcept;
  std::size_t count();

 private:
  Mutex mutex_;  // Not held while anything is freed.
  std::vector<void*> kept_ VMART_GUARDED_BY(mutex_);
};

/// Frees it, or keeps it for later where it is refused for now. Blocks: as `Runtime::free`.
void free_or_keep(Runtime& runtime, void* pointer, DeferredFrees& late) noexcept;

}  // namespace vma
