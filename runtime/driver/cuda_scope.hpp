#pragma once

#include "driver/cuda_api.hpp"

namespace vma {

/// A context for calls that need some context, no matter which. Null is none.
struct FallbackContext {
  CUcontext context;
};

/// The scope of every driver call: the calling thread disturbs no capture of another stream, and
/// the given context, if any, is current. Both end with the scope.
class CudaScope {
 public:
  /// Keeps whatever context is current.
  explicit CudaScope(const CudaApi& api);
  /// Throws: Error if the context cannot be made current; then nothing has changed.
  CudaScope(const CudaApi& api, CUcontext context);
  /// Keeps the current context; makes the fallback current if the thread has none.
  CudaScope(const CudaApi& api, FallbackContext fallback);
  ~CudaScope();
  CudaScope(const CudaScope&) = delete;
  CudaScope& operator=(const CudaScope&) = delete;

 private:
  void be_relaxed();
  void push(CUcontext context);
  void restore_mode() noexcept;

  const CudaApi& api_;
  CUstreamCaptureMode mode_ =
      CU_STREAM_CAPTURE_MODE_RELAXED;  // The thread's own mode, while the scope lasts.
  bool relaxed_ = false;
  bool pushed_ = false;
};

}  // namespace vma
