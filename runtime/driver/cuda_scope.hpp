#pragma once

#include "driver/cuda_api.hpp"
#include "driver/rm/channels.hpp"

#include <optional>

namespace vma {

/// A context for calls that need any context. Null for none.
struct FallbackContext {
  CUcontext context;
};

/// The scope of every driver call. Within it, the calling thread does not disturb captures of other
/// streams, and the given context, if any, is current. Both end with the scope.
class CudaScope {
 public:
  /// Contexts of the runtime's own: what is made in their scope is never suspended. Throws:
  /// std::bad_alloc.
  static void note_own(CUcontext context);
  static void forget_own(CUcontext context) noexcept;

  /// Keeps the current context.
  explicit CudaScope(const CudaApi& api);
  /// Throws: Error if the context cannot be made current; nothing has changed then.
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
      CU_STREAM_CAPTURE_MODE_RELAXED;  // The thread's own mode, during the scope.
  bool relaxed_ = false;
  bool pushed_ = false;
  std::optional<rm::Channels::Own> own_;
};

}  // namespace vma
