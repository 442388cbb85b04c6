#pragma once

#include "interpose/driver_library.hpp"

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <thread>

namespace vma::interpose {

/// Whether a stream captures. `unknown`: the driver does not answer for the stream.
enum class Capturing { no, yes, unknown };
Capturing capturing(const DriverLibrary& driver, CUstream stream) noexcept;

/// What the driver would refuse to the program now, so that calls which vmart serves are refused as
/// well: a context with a broken kernel is lost, and some captures forbid calls that may wait. Any
/// thread.
class Refusals {
 public:
  /// A call of the driver has returned that. If such an error stays, the current context is lost.
  void note_error(CUresult error) noexcept;
  /// The error that all calls in the current context return; success if there is none.
  CUresult of_current_context() const noexcept;
  /// The context is about to be destroyed: another one may get its handle.
  void forget(CUcontext context) noexcept;

  /// A stream is about to begin to capture. Call it before `VmartLibrary::loaded`. Returns true.
  static bool note_capture_begins() noexcept;
  /// Whether that has happened in this process.
  static bool has_captured() noexcept;
  /// The stream has begun to capture. The thread's own has the name CU_STREAM_PER_THREAD.
  void capture_begun(CUstream stream, CUstreamCaptureMode mode) noexcept;
  /// The stream is about to be destroyed.
  void forget(CUstream stream) noexcept;
  /// Whether any capture may be in progress.
  bool any_capture() noexcept { return count_.load(std::memory_order_relaxed) != 0 && look(); }
  /// Whether a capture may forbid the calling thread to allocate and to free, so that the driver
  /// has to be asked: it ends the capture then.
  bool captures_may_forbid() noexcept;

 private:
  struct Lost {
    std::atomic<CUcontext> context = nullptr;
    std::atomic<CUresult> error = CUDA_SUCCESS;
  };
  struct Capture {
    CUstream stream = nullptr;  ///< Null: a free place.
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::thread::id thread;
  };

  void end(Capture& capture) noexcept;
  bool look(bool* forbids = nullptr) noexcept;

  std::array<Lost, 32> lost_;  // As many as there are contexts of GPUs, and more.
  std::atomic<bool> any_lost_ = false;

  std::mutex mutex_;  // For captures. No other lock is taken within it.
  // With more, one of them is forgotten.
  std::array<Capture, 64> captures_;
  std::size_t next_ = 0;
  std::atomic<int> count_ = 0;
};

}  // namespace vma::interpose
