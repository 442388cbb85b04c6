#pragma once

#include "simcuda/boundary.hpp"

#include "base/mutex.hpp"

#include <cstdint>
#include <map>
#include <memory>

namespace vma {

/// Objects of the library by numbers that serve as handles. A number is never used again, so a
/// stale handle is refused. Any thread.
template <typename Object>
class HandleTable {
 public:
  std::uintptr_t add(std::shared_ptr<Object> object) {
    const MutexLock lock(mutex_);
    last_ += 16;
    objects_.emplace(last_, std::move(object));
    return last_;
  }
  /// Throws: Refusal{`code`} for an unknown handle.
  template <typename Native>
  std::shared_ptr<Object> at(Native* handle, CUresult code = CUDA_ERROR_INVALID_HANDLE) const {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == objects_.end()) refuse(code);
    return found->second;
  }
  template <typename Native>
  bool contains(Native* handle) const {
    const MutexLock lock(mutex_);
    return objects_.contains(reinterpret_cast<std::uintptr_t>(handle));
  }
  template <typename Native>
  std::shared_ptr<Object> take(Native* handle, CUresult code = CUDA_ERROR_INVALID_HANDLE) {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == objects_.end()) refuse(code);
    std::shared_ptr<Object> taken = std::move(found->second);
    objects_.erase(found);
    return taken;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::uintptr_t, std::shared_ptr<Object>> objects_ VMART_GUARDED_BY(mutex_);
  std::uintptr_t last_ VMART_GUARDED_BY(mutex_) = 0x10000;
};

}  // namespace vma
