#include "interpose/refusals.hpp"

#include "interpose/process.hpp"

#include <algorithm>

namespace vma::interpose {
namespace {

std::atomic<bool> capture_has_begun = false;

/// Whether the error stays: the context does no work any more, and returns it from every call.
bool ends_context(CUresult error) noexcept {
  switch (error) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED: return true;
    default: return false;
  }
}

CUcontext current() noexcept {
  const DriverLibrary* const driver = DriverLibrary::get();
  CUcontext context = nullptr;
  return driver != nullptr && driver->cuCtxGetCurrent_plain(&context) == CUDA_SUCCESS ? context
                                                                                      : nullptr;
}

CUstreamCaptureMode mode_of_thread(const DriverLibrary& driver) noexcept {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  driver.cuThreadExchangeStreamCaptureMode_plain(&mode);
  CUstreamCaptureMode put_back = mode;
  driver.cuThreadExchangeStreamCaptureMode_plain(&put_back);
  return mode;
}

}  // namespace

Capturing capturing(const DriverLibrary& driver, CUstream stream) noexcept {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver.cuStreamIsCapturing_plain(stream, &status) != CUDA_SUCCESS) return Capturing::unknown;
  return status != CU_STREAM_CAPTURE_STATUS_NONE ? Capturing::yes : Capturing::no;
}

// --- Contexts that are lost

/// The driver does not tell which context an error is of. Nearly always, it is the current one.
void Refusals::note_error(CUresult error) noexcept {
  if (!ends_context(error) || is_forked_child()) return;
  CUcontext const context = current();
  if (context == nullptr) return;
  for (Lost& lost : lost_) {
    CUcontext none = nullptr;
    if (lost.context.compare_exchange_strong(none, context)) {
      lost.error.store(error, std::memory_order_release);
      any_lost_.store(true, std::memory_order_release);
      return;
    }
    if (none == context) return;
  }
}

CUresult Refusals::of_current_context() const noexcept {
  if (!any_lost_.load(std::memory_order_acquire)) return CUDA_SUCCESS;
  CUcontext const context = current();
  const auto found = std::ranges::find_if(
      lost_, [context](const Lost& lost) { return context != nullptr && lost.context == context; });
  return found != lost_.end() ? found->error.load(std::memory_order_acquire) : CUDA_SUCCESS;
}

void Refusals::forget(CUcontext context) noexcept {
  for (Lost& lost : lost_) {
    if (lost.context.load() != context) continue;
    lost.error = CUDA_SUCCESS;
    lost.context = nullptr;
  }
}

// --- Captures

bool Refusals::note_capture_begins() noexcept {
  if (!capture_has_begun.load(std::memory_order_relaxed)) capture_has_begun.store(true);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return true;
}

bool Refusals::has_captured() noexcept {
  return capture_has_begun.load(std::memory_order_relaxed);
}

void Refusals::capture_begun(CUstream stream, CUstreamCaptureMode mode) noexcept {
  if (is_forked_child()) return;
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(captures_, stream, &Capture::stream);
  auto place = known != captures_.end()
                   ? known
                   : std::ranges::find(captures_, CUstream{nullptr}, &Capture::stream);
  if (place == captures_.end()) place = captures_.begin() + next_++ % captures_.size();
  if (place->stream == nullptr) count_.fetch_add(1);
  *place = {stream, mode, std::this_thread::get_id()};
}

void Refusals::forget(CUstream stream) noexcept {
  if (count_.load(std::memory_order_relaxed) == 0 || is_forked_child()) return;
  const std::lock_guard lock(mutex_);
  for (Capture& capture : captures_) {
    if (capture.stream == stream) end(capture);
  }
}

/// Requires: the caller holds `mutex_`.
void Refusals::end(Capture& capture) noexcept {
  capture.stream = nullptr;
  count_.fetch_sub(1);
}

bool Refusals::captures_may_forbid() noexcept {
  bool forbids = false;
  return count_.load(std::memory_order_relaxed) != 0 && look(&forbids) && forbids;
}

/// Forgets the captures that have ended. Returns whether any is left.
bool Refusals::look(bool* forbids) noexcept {
  const DriverLibrary* const driver = DriverLibrary::get();
  if (driver == nullptr || is_forked_child()) return false;
  const CUstreamCaptureMode of_thread = mode_of_thread(*driver);
  const std::lock_guard lock(mutex_);
  for (Capture& capture : captures_) {
    const bool here = capture.thread == std::this_thread::get_id();
    if (capture.stream == nullptr || (capture.stream == CU_STREAM_PER_THREAD && !here)) continue;
    if (capturing(*driver, capture.stream) != Capturing::yes) {
      end(capture);
    } else if (forbids != nullptr && of_thread != CU_STREAM_CAPTURE_MODE_RELAXED) {
      const bool everywhere = capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                              of_thread == CU_STREAM_CAPTURE_MODE_GLOBAL;
      *forbids |= everywhere || (here && capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED);
    }
  }
  return count_.load(std::memory_order_relaxed) != 0;
}

}  // namespace vma::interpose
