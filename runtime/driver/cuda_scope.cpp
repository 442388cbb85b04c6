#include "driver/cuda_scope.hpp"

#include "base/mutex.hpp"
#include "base/process_exit.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

namespace vma {
namespace {

struct OwnContexts {
  std::atomic<bool> any{false};
  Mutex mutex;
  std::vector<CUcontext> all VMART_GUARDED_BY(mutex);
};

OwnContexts& own_contexts() {
  static Immortal<OwnContexts> only;
  return *only;
}

bool is_own(CUcontext context) {
  OwnContexts& own = own_contexts();
  if (!own.any.load(std::memory_order_acquire)) return false;
  const MutexLock lock(own.mutex);
  return std::ranges::find(own.all, context) != own.all.end();
}

}  // namespace

void CudaScope::note_own(CUcontext context) {
  OwnContexts& own = own_contexts();
  const MutexLock lock(own.mutex);
  own.all.push_back(context);
  own.any = true;
}

void CudaScope::forget_own(CUcontext context) noexcept {
  OwnContexts& own = own_contexts();
  const MutexLock lock(own.mutex);
  std::erase(own.all, context);
  own.any = !own.all.empty();
}

CudaScope::CudaScope(const CudaApi& api) : api_(api) {
  be_relaxed();
}

CudaScope::CudaScope(const CudaApi& api, CUcontext context) : api_(api) {
  be_relaxed();
  push(context);
}

CudaScope::CudaScope(const CudaApi& api, FallbackContext fallback) : api_(api) {
  be_relaxed();
  CUcontext current = nullptr;
  api_.cuCtxGetCurrent.attempt(&current);
  if (current == nullptr && fallback.context != nullptr) push(fallback.context);
}

CudaScope::~CudaScope() {
  if (pushed_) {
    CUcontext popped = nullptr;
    api_.cuCtxPopCurrent.attempt(&popped);  // Fails only after the driver has shut down.
  }
  restore_mode();
}

void CudaScope::be_relaxed() {
  // If the driver refuses this, it is shutting down, which the next call reports better.
  relaxed_ = api_.cuThreadExchangeStreamCaptureMode.attempt(&mode_) == CUDA_SUCCESS;
}

void CudaScope::push(CUcontext context) {
  try {
    api_.cuCtxPushCurrent(context);
    pushed_ = true;
    if (is_own(context)) own_.emplace();
  } catch (...) {
    restore_mode();
    throw;
  }
}

void CudaScope::restore_mode() noexcept {
  if (relaxed_) api_.cuThreadExchangeStreamCaptureMode.attempt(&mode_);
}

}  // namespace vma
