#include "driver/cuda_scope.hpp"

namespace vma {

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
  } catch (...) {
    restore_mode();
    throw;
  }
}

void CudaScope::restore_mode() noexcept {
  if (relaxed_) api_.cuThreadExchangeStreamCaptureMode.attempt(&mode_);
}

}  // namespace vma
