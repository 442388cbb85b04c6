#include "driver/cuda_driver.hpp"
#include "driver/cuda_handles.hpp"
#include "driver/cuda_scope.hpp"

namespace vma {
namespace {

// CU_STREAM_PER_THREAD, which is above CU_STREAM_LEGACY.
constexpr std::uint64_t last_built_in = 2;

/// Polls until `is_done` returns true or the clock has reached the deadline.
template <typename Done>
bool poll_until(Clock& clock, TimePoint deadline, Done is_done) {
  Poll poll;
  while (!is_done()) {
    if (deadline != never && clock.now() >= deadline) return false;
    poll.pause();
  }
  return true;
}

/// Returns true if done and false if not ready yet. Throws for any other result.
template <typename Call, typename Handle>
bool is_done(const Call& call, Handle handle) {
  const CUresult result = call.attempt(handle);
  if (result == CUDA_SUCCESS) return true;
  if (result == CUDA_ERROR_NOT_READY) return false;
  throw driver_error(result, call.name, "(" + cuda_argument(handle) + ")");
}

}  // namespace

BoundStream CudaDriver::create_stream(ContextHandle context, StreamKind kind) {
  const CudaScope scope(api_, vma::native(context));
  int least = 0, greatest = 0;
  if (kind == StreamKind::urgent) api_.cuCtxGetStreamPriorityRange(&least, &greatest);
  CUstream stream = nullptr;
  api_.cuStreamCreateWithPriority(
      &stream, kind == StreamKind::blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING, greatest);
  return {context, handle_of<StreamHandle>(stream)};
}

void CudaDriver::destroy_stream(BoundStream stream) {
  const CudaScope scope(api_, vma::native(stream.context));
  api_.cuStreamDestroy(vma::native(stream.handle));
}

ContextHandle CudaDriver::stream_context(StreamHandle stream) {
  const CudaScope scope(api_, FallbackContext{static_cast<CUcontext>(retained_context())});
  CUcontext context = nullptr;
  if (static_cast<std::uint64_t>(stream) <= last_built_in) {
    // Querying the legacy stream would end a capture of a blocking stream.
    api_.cuCtxGetCurrent(&context);
    if (context == nullptr)
      throw driver_error(native_invalid_context, "cuCtxGetCurrent",
                         "a default stream is that of the current context, and none is current; "
                         "cudaFree(nullptr) makes one");
  } else {
    api_.cuStreamGetCtx(vma::native(stream), &context);
  }
  return handle_of<ContextHandle>(context);
}

std::uint64_t CudaDriver::stream_id(BoundStream stream) {
  const CudaScope scope(api_, vma::native(stream.context));
  unsigned long long id = 0;
  api_.cuStreamGetId(vma::native(stream.handle), &id);
  return id;
}

StreamKind CudaDriver::stream_kind(BoundStream stream) {
  if (static_cast<std::uint64_t>(stream.handle) <= last_built_in) return StreamKind::blocking;
  const CudaScope scope(api_, vma::native(stream.context));
  unsigned int flags = 0;
  api_.cuStreamGetFlags(vma::native(stream.handle), &flags);
  return (flags & CU_STREAM_NON_BLOCKING) != 0 ? StreamKind::non_blocking : StreamKind::blocking;
}

bool CudaDriver::is_capturing(BoundStream stream) {
  const CudaScope scope(api_, vma::native(stream.context));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = api_.cuStreamIsCapturing.attempt(vma::native(stream.handle), &status);
  // Returned for the legacy stream if a blocking stream of its context captures.
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
  if (result != CUDA_SUCCESS) {
    throw driver_error(result, api_.cuStreamIsCapturing.name,
                       fmt::format("stream {:#x}", static_cast<std::uint64_t>(stream.handle)));
  }
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// Without a CudaScope: its four calls would take longer than these two, which disturb no capture.
StreamNow CudaDriver::stream_now(StreamHandle stream, std::uint64_t id) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t capture = 0;
  api_.cuStreamGetCaptureInfo(vma::native(stream), &status, &capture, nullptr, nullptr, nullptr);
  if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) {  // Then there is no id either.
    throw driver_error(
        CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, api_.cuStreamGetCaptureInfo.name,
        fmt::format("stream {:#x}; end its capture", static_cast<std::uint64_t>(stream)));
  }
  if (status != CU_STREAM_CAPTURE_STATUS_NONE) return {0, capture};
  if (id != 0) return {id, 0};
  unsigned long long found = 0;
  api_.cuStreamGetId(vma::native(stream), &found);
  return {found, 0};
}

bool CudaDriver::query_stream(BoundStream stream) {
  const CudaScope scope(api_, vma::native(stream.context));
  return is_done(api_.cuStreamQuery, vma::native(stream.handle));
}

bool CudaDriver::wait_stream(BoundStream stream, TimePoint deadline) {
  const CudaScope scope(api_, vma::native(stream.context));
  return poll_until(clock_, deadline,
                    [&] { return is_done(api_.cuStreamQuery, vma::native(stream.handle)); });
}

void CudaDriver::stream_wait_event(BoundStream stream, EventHandle event) {
  const CudaScope scope(api_, vma::native(stream.context));
  api_.cuStreamWaitEvent(vma::native(stream.handle), vma::native(event), 0);
}

EventHandle CudaDriver::create_event(ContextHandle context) {
  const CudaScope scope(api_, vma::native(context));
  CUevent event = nullptr;
  api_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  return handle_of<EventHandle>(event);
}

void CudaDriver::destroy_event(EventHandle event) {
  const CudaScope scope(api_, FallbackContext{static_cast<CUcontext>(retained_context())});
  api_.cuEventDestroy(vma::native(event));
}

void CudaDriver::record(EventHandle event, BoundStream stream) {
  const CudaScope scope(api_, vma::native(stream.context));
  api_.cuEventRecord(vma::native(event), vma::native(stream.handle));
}

bool CudaDriver::query_event(EventHandle event) {
  const CudaScope scope(api_);
  return is_done(api_.cuEventQuery, vma::native(event));
}

bool CudaDriver::wait_event(EventHandle event, TimePoint deadline) {
  const CudaScope scope(api_);
  return poll_until(clock_, deadline,
                    [&] { return is_done(api_.cuEventQuery, vma::native(event)); });
}

}  // namespace vma
