#include "abi/deferred_frees.hpp"

#include "base/log.hpp"

#include <vma/runtime.hpp>

#include <exception>

namespace vma {

void DeferredFrees::keep(void* pointer) noexcept {
  try {
    const MutexLock lock(mutex_);
    kept_.push_back(pointer);
  } catch (const std::exception& error) {
    log(LogLevel::error, "{} is never freed: {}", fmt::ptr(pointer), error.what());
  }
}

void DeferredFrees::free_all(Runtime& runtime) noexcept {
  std::vector<void*> now;
  {
    const MutexLock lock(mutex_);
    now.swap(kept_);
  }
  for (void* pointer : now) free_or_keep(runtime, pointer, *this);
}

std::size_t DeferredFrees::count() {
  const MutexLock lock(mutex_);
  return kept_.size();
}

void free_or_keep(Runtime& runtime, void* pointer, DeferredFrees& late) noexcept {
  try {
    runtime.free(pointer);
  } catch (const Error& error) {
    const bool for_good =
        error.kind() == ErrorKind::unknown_pointer || error.kind() == ErrorKind::driver_gone;
    log(for_good ? LogLevel::error : LogLevel::warn, "vmart_torch_free: {}", error.what());
    if (!for_good) late.keep(pointer);
  } catch (const std::exception& error) {
    log(LogLevel::warn, "vmart_torch_free: {}", error.what());
    late.keep(pointer);
  }
}

}  // namespace vma
