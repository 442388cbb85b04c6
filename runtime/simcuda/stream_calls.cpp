// Streams and events.
#include "simcuda/event_times.hpp"
#include "simcuda/library.hpp"
#include "simcuda/memory.hpp"

#include "base/mutex.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace vma {
namespace {

constexpr int urgent_priority = -5;

/// Priorities, which have no effect in the simulator.
struct Priorities {
  Mutex mutex;
  std::map<CUstream, int> of_stream VMART_GUARDED_BY(mutex);
};
Priorities& priorities() {
  static Priorities& known = *new Priorities;
  return known;
}

void create_stream(CUstream* stream, ContextHandle context, unsigned int flags, int priority) {
  required(stream);
  if ((flags & ~static_cast<unsigned int>(CU_STREAM_NON_BLOCKING)) != 0) {
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  const bool blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  const BoundStream made =
      sim().create_stream(context, blocking ? StreamKind::blocking : StreamKind::non_blocking);
  *stream = native_of<CUstream>(made.handle);
  const MutexLock lock(priorities().mutex);
  priorities().of_stream[*stream] = std::clamp(priority, urgent_priority, 0);
}

void end_stream(CUstream stream) {
  sim().destroy_stream(stream_of(stream));
  const MutexLock lock(priorities().mutex);
  priorities().of_stream.erase(stream);
}

void record(CUevent native, CUstream native_stream) {
  const BoundStream stream = stream_of(native_stream);
  const auto event = handle_of<EventHandle>(native);
  if (EventTimes::of_process().measures(event) && !sim().is_capturing(stream)) {
    launch_own(stream, OwnKernel::store_time, KernelArguments::of(event));
  }
  sim().record(event, stream);
}

void elapsed(float* milliseconds, CUevent begin, CUevent end) {
  required(milliseconds);
  const auto time_of = [](CUevent native) {
    const auto event = handle_of<EventHandle>(native);
    if (!sim().query_event(event)) refuse(CUDA_ERROR_NOT_READY);
    const auto time = EventTimes::of_process().time_of(event);
    if (!time) refuse(CUDA_ERROR_INVALID_HANDLE);  // Not recorded, or without time.
    return *time;
  };
  const std::chrono::duration<float, std::milli> passed = time_of(end) - time_of(begin);
  *milliseconds = passed.count();
}

void destroy_event(CUevent event) {
  sim().destroy_event(handle_of<EventHandle>(event));
  EventTimes::of_process().remove(handle_of<EventHandle>(event));
}

struct Callback {
  CUstreamCallback function;
  CUstream stream;
  void* data;
};

void run_callback(void* kept) {
  const std::unique_ptr<Callback> callback(static_cast<Callback*>(kept));
  callback->function(callback->stream, CUDA_SUCCESS, callback->data);
}

}  // namespace

SIMCUDA_CALL(cuStreamCreate, (CUstream * stream, unsigned int flags), (stream, flags)) {
  create_stream(stream, current_context(), flags, 0);
}
SIMCUDA_CALL(cuStreamCreateWithPriority, (CUstream * stream, unsigned int flags, int priority),
             (stream, flags, priority)) {
  create_stream(stream, current_context(), flags, priority);
}
SIMCUDA_CALL(cuGreenCtxStreamCreate,
             (CUstream * stream, CUgreenCtx context, unsigned int flags, int priority),
             (stream, context, flags, priority)) {
  create_stream(stream, handle_of<ContextHandle>(context), flags, priority);
}
SIMCUDA_CALL(cuStreamDestroy_v2, (CUstream stream), (stream)) {
  end_stream(stream);
}
SIMCUDA_CALL(cuStreamDestroy, (CUstream stream), (stream)) {
  end_stream(stream);
}

SIMCUDA_STREAM_CALL(cuStreamGetCtx, _ptsz, (CUstream stream, CUcontext* context),
                    (stream, context)) {
  const BoundStream bound = stream_of(stream);
  *required(context) = native_of<CUcontext>(
      is_none(bound.context) ? sim().stream_context(bound.handle) : bound.context);
}
SIMCUDA_STREAM_CALL(cuStreamGetDevice, _ptsz, (CUstream stream, CUdevice* device),
                    (stream, device)) {
  const BoundStream bound = stream_of(stream);
  *required(device) = ordinal_of(sim().context_device(
      is_none(bound.context) ? sim().stream_context(bound.handle) : bound.context));
}
SIMCUDA_STREAM_CALL(cuStreamGetId, _ptsz, (CUstream stream, unsigned long long* id), (stream, id)) {
  *required(id) = sim().stream_id(stream_of(stream));
}
SIMCUDA_STREAM_CALL(cuStreamGetFlags, _ptsz, (CUstream stream, unsigned int* flags),
                    (stream, flags)) {
  const StreamKind kind = sim().stream_kind(stream_of(stream));
  *required(flags) = kind == StreamKind::blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
}
SIMCUDA_STREAM_CALL(cuStreamGetPriority, _ptsz, (CUstream stream, int* priority),
                    (stream, priority)) {
  sim().stream_kind(stream_of(stream));
  const MutexLock lock(priorities().mutex);
  const auto found = priorities().of_stream.find(stream);
  *required(priority) = found == priorities().of_stream.end() ? 0 : found->second;
}

SIMCUDA_STREAM_CALL(cuStreamQuery, _ptsz, (CUstream stream), (stream)) {
  const BoundStream bound = stream_of(stream);
  if (sim().query_stream(bound)) return;
  pass_time();
  if (!sim().query_stream(bound)) refuse(CUDA_ERROR_NOT_READY);
}
SIMCUDA_STREAM_CALL(cuStreamSynchronize, _ptsz, (CUstream stream), (stream)) {
  finish(stream_of(stream));
  DeviceMemory::of_process().drain();
}
SIMCUDA_STREAM_CALL(cuStreamWaitEvent, _ptsz, (CUstream stream, CUevent event, unsigned int),
                    (stream, event, 0)) {
  sim().stream_wait_event(stream_of(stream), handle_of<EventHandle>(event));
}

SIMCUDA_STREAM_CALL(cuLaunchHostFunc, _ptsz, (CUstream stream, CUhostFn function, void* data),
                    (stream, function, data)) {
  launch_own(stream_of(stream), OwnKernel::call_host,
             KernelArguments::of(required(function), data));
}
// The mode says how a thread waits for it; here none does.
SIMCUDA_STREAM_CALL(cuLaunchHostFunc_v2, _ptsz,
                    (CUstream stream, CUhostFn function, void* data, unsigned int mode),
                    (stream, function, data, mode)) {
  if (mode > 1) refuse(CUDA_ERROR_INVALID_VALUE);
  do_cuLaunchHostFunc(stream, function, data);
}
SIMCUDA_STREAM_CALL(cuStreamAddCallback, _ptsz,
                    (CUstream stream, CUstreamCallback function, void* data, unsigned int),
                    (stream, function, data, 0)) {
  const BoundStream bound = stream_of(stream);
  if (sim().is_capturing(bound)) refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  auto callback = std::make_unique<Callback>(Callback{required(function), stream, data});
  launch_own(bound, OwnKernel::call_host, KernelArguments::of(&run_callback, callback.get()));
  static_cast<void>(callback.release());  // `run_callback` deletes it.
}

// --- Events
SIMCUDA_CALL(cuEventCreate, (CUevent * event, unsigned int flags), (event, flags)) {
  required(event);
  if ((flags & CU_EVENT_INTERPROCESS) != 0) refuse(CUDA_ERROR_NOT_SUPPORTED);
  const EventHandle made = sim().create_event(current_context());
  if ((flags & CU_EVENT_DISABLE_TIMING) == 0) EventTimes::of_process().add(made);
  *event = native_of<CUevent>(made);
}
SIMCUDA_CALL(cuEventDestroy_v2, (CUevent event), (event)) {
  destroy_event(event);
}
SIMCUDA_CALL(cuEventDestroy, (CUevent event), (event)) {
  destroy_event(event);
}
SIMCUDA_STREAM_CALL(cuEventRecord, _ptsz, (CUevent event, CUstream stream), (event, stream)) {
  record(event, stream);
}
SIMCUDA_STREAM_CALL(cuEventRecordWithFlags, _ptsz,
                    (CUevent event, CUstream stream, unsigned int flags), (event, stream, flags)) {
  if (flags != 0) refuse(CUDA_ERROR_NOT_SUPPORTED);
  record(event, stream);
}
SIMCUDA_CALL(cuEventQuery, (CUevent event), (event)) {
  const auto asked = handle_of<EventHandle>(event);
  if (sim().query_event(asked)) return;
  pass_time();
  if (!sim().query_event(asked)) refuse(CUDA_ERROR_NOT_READY);
}
SIMCUDA_CALL(cuEventSynchronize, (CUevent event), (event)) {
  sim().wait_event(handle_of<EventHandle>(event), never);
}
SIMCUDA_CALL(cuEventElapsedTime, (float* milliseconds, CUevent begin, CUevent end),
             (milliseconds, begin, end)) {
  elapsed(milliseconds, begin, end);
}
#if CUDA_VERSION >= 12080
SIMCUDA_CALL(cuEventElapsedTime_v2, (float* milliseconds, CUevent begin, CUevent end),
             (milliseconds, begin, end)) {
  elapsed(milliseconds, begin, end);
}
#endif

}  // namespace vma
