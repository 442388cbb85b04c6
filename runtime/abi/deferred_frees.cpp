#include "abi/deferred_frees.hpp"

#include "base/log.hpp"

#include <exception>
#include <utility>

namespace vma {

void DeferredFrees::keep(const Free& free) noexcept {
  try {
    const MutexLock lock(mutex_);
    kept_.push_back(free);
  } catch (const std::exception& error) {
    log(LogLevel::error, "{} is never freed: {}", fmt::ptr(free.pointer), error.what());
  }
}

std::vector<DeferredFrees::Free> DeferredFrees::take_all() noexcept {
  const MutexLock lock(mutex_);
  return std::exchange(kept_, {});
}

std::size_t DeferredFrees::count() {
  const MutexLock lock(mutex_);
  return kept_.size();
}

}  // namespace vma
