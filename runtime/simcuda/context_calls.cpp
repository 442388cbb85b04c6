// Contexts: primary, created and green ones, and the stack of the calling thread.
#include "simcuda/library.hpp"

#include "simcuda/memory.hpp"
#include "simcuda/handle_table.hpp"

#include "base/mutex.hpp"

#include <map>
#include <memory>
#include <utility>

namespace vma {
namespace {

/// So that two threads that open a context do not prepare it twice.
Mutex& opening() {
  static Mutex& mutex = *new Mutex;
  return mutex;
}

struct Resources {
  int multiprocessors = 0;
};
HandleTable<Resources>& descriptions() {
  static HandleTable<Resources>& known = *new HandleTable<Resources>;
  return known;
}

/// They have no effect in the simulator.
struct ContextFlags {
  Mutex mutex;
  std::map<ContextHandle, unsigned int> of_context VMART_GUARDED_BY(mutex);
  std::map<DeviceId, unsigned int> of_primary VMART_GUARDED_BY(mutex);  // CU_CTX_SCHED_AUTO is 0.
};
ContextFlags& context_flags() {
  static ContextFlags& all = *new ContextFlags;
  return all;
}

ContextHandle prepared(ContextHandle context, DeviceId device, bool primary) {
  try {
    prepare_context(context);
  } catch (...) {
    if (primary) {
      sim().release_primary(device);
    } else {
      sim().destroy_context(context);
    }
    throw;
  }
  return context;
}

void create_context(CUcontext* context, CUdevice device) {
  required(context);
  const MutexLock lock(opening());
  const DeviceId id = device_of(device);
  const ContextHandle made = prepared(sim().create_context(id), id, false);
  push_context(made);
  *context = native_of<CUcontext>(made);
}

void destroy_context(ContextHandle context) {
  if (is_none(context)) refuse(CUDA_ERROR_INVALID_VALUE);
  DeviceMemory::of_process().free_all_of(context);
  sim().destroy_context(context);
  forget_context(context);
  if (top_context() == context) pop_context();
}

void release_primary(CUdevice device) {
  const DeviceId id = device_of(device);
  const MutexLock lock(opening());
  const ContextHandle context =
      sim().context_active(id) ? sim().retain_primary(id) : ContextHandle{};
  if (!is_none(context)) sim().release_primary(id);
  sim().release_primary(id);
  if (!sim().context_active(id)) forget_context(context);
}

ContextHandle given_or_current(CUcontext context) {
  return context != nullptr ? handle_of<ContextHandle>(context) : current_context();
}

}  // namespace

SIMCUDA_CALL(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device), (context, device)) {
  required(context);
  const DeviceId id = device_of(device);
  const MutexLock lock(opening());
  const ContextHandle retained = prepared(sim().retain_primary(id), id, true);
  note_retained(retained);
  *context = native_of<CUcontext>(retained);
}

SIMCUDA_CALL(cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device)) {
  release_primary(device);
}
SIMCUDA_CALL(cuDevicePrimaryCtxRelease, (CUdevice device), (device)) {
  release_primary(device);
}

SIMCUDA_CALL(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned int* flags, int* active),
             (device, flags, active)) {
  *required(active) = sim().context_active(device_of(device)) ? 1 : 0;
  ContextFlags& all = context_flags();
  const MutexLock lock(all.mutex);
  *required(flags) = all.of_primary[device_of(device)];
}

SIMCUDA_CALL(cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned int flags),
             (device, flags)) {
  ContextFlags& all = context_flags();
  const MutexLock lock(all.mutex);
  all.of_primary[device_of(device)] = flags;
}

SIMCUDA_CALL(cuCtxCreate, (CUcontext * context, unsigned int, CUdevice device),
             (context, 0, device)) {
  create_context(context, device);
}
SIMCUDA_CALL(cuCtxCreate_v2, (CUcontext * context, unsigned int, CUdevice device),
             (context, 0, device)) {
  create_context(context, device);
}
SIMCUDA_CALL(cuCtxCreate_v3,
             (CUcontext * context, CUexecAffinityParam*, int, unsigned int, CUdevice device),
             (context, nullptr, 0, 0, device)) {
  create_context(context, device);
}
SIMCUDA_CALL(cuCtxCreate_v4,
             (CUcontext * context, CUctxCreateParams*, unsigned int, CUdevice device),
             (context, nullptr, 0, device)) {
  create_context(context, device);
}

SIMCUDA_CALL(cuCtxDestroy_v2, (CUcontext context), (context)) {
  destroy_context(handle_of<ContextHandle>(context));
}
SIMCUDA_CALL(cuCtxDestroy, (CUcontext context), (context)) {
  destroy_context(handle_of<ContextHandle>(context));
}

SIMCUDA_CALL(cuCtxGetCurrent, (CUcontext * context), (context)) {
  sim();
  *required(context) = native_of<CUcontext>(top_context());
}
SIMCUDA_CALL(cuCtxSetCurrent, (CUcontext context), (context)) {
  set_context(handle_of<ContextHandle>(context));
}
SIMCUDA_CALL(cuCtxPushCurrent_v2, (CUcontext context), (context)) {
  push_context(handle_of<ContextHandle>(context));
}
SIMCUDA_CALL(cuCtxPushCurrent, (CUcontext context), (context)) {
  push_context(handle_of<ContextHandle>(context));
}
SIMCUDA_CALL(cuCtxPopCurrent_v2, (CUcontext * context), (context)) {
  const ContextHandle popped = pop_context();
  if (context != nullptr) *context = native_of<CUcontext>(popped);
}
SIMCUDA_CALL(cuCtxPopCurrent, (CUcontext * context), (context)) {
  const ContextHandle popped = pop_context();
  if (context != nullptr) *context = native_of<CUcontext>(popped);
}

SIMCUDA_CALL(cuCtxGetDevice, (CUdevice * device), (device)) {
  *required(device) = ordinal_of(sim().context_device(current_context()));
}
SIMCUDA_CALL(cuCtxGetId, (CUcontext context, unsigned long long* id), (context, id)) {
  *required(id) = sim().context_id(given_or_current(context));
}
SIMCUDA_CALL(cuCtxGetFlags, (unsigned int* flags), (flags)) {
  required(flags);
  const ContextHandle context = current_context();
  ContextFlags& all = context_flags();
  const MutexLock lock(all.mutex);
  const auto found = all.of_context.find(context);
  *flags = found != all.of_context.end() ? found->second : 0;  // CU_CTX_SCHED_AUTO
}
SIMCUDA_CALL(cuCtxSetFlags, (unsigned int flags), (flags)) {
  const ContextHandle context = current_context();
  ContextFlags& all = context_flags();
  const MutexLock lock(all.mutex);
  all.of_context[context] = flags;
}
SIMCUDA_CALL(cuCtxGetApiVersion, (CUcontext context, unsigned int* version), (context, version)) {
  sim().context_device(given_or_current(context));
  *required(version) = 3020;
}
SIMCUDA_CALL(cuCtxGetStreamPriorityRange, (int* least, int* greatest), (least, greatest)) {
  current_context();
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
}
SIMCUDA_CALL(cuCtxGetLimit, (std::size_t * value, CUlimit), (value, CU_LIMIT_STACK_SIZE)) {
  current_context();
  *required(value) = 1024;
}
SIMCUDA_CALL(cuCtxSetLimit, (CUlimit, std::size_t), (CU_LIMIT_STACK_SIZE, 0)) {
  current_context();
}
SIMCUDA_CALL(cuCtxGetCacheConfig, (CUfunc_cache * config), (config)) {
  current_context();
  *required(config) = CU_FUNC_CACHE_PREFER_NONE;
}
SIMCUDA_CALL(cuCtxSetCacheConfig, (CUfunc_cache), (CU_FUNC_CACHE_PREFER_NONE)) {
  current_context();
}

// Waits through an event, so that it ends captures of the context, as on a GPU.
SIMCUDA_CALL(cuCtxSynchronize, (void), ()) {
  const ContextHandle context = current_context();
  const EventHandle done = sim().create_event(context);
  try {
    sim().record_context(context, done);
    sim().wait_event(done, never);
  } catch (...) {
    sim().destroy_event(done);
    throw;
  }
  sim().destroy_event(done);
}

SIMCUDA_CALL(cuCtxRecordEvent, (CUcontext context, CUevent event), (context, event)) {
  sim().record_context(given_or_current(context), handle_of<EventHandle>(event));
}
SIMCUDA_CALL(cuCtxWaitEvent, (CUcontext context, CUevent event), (context, event)) {
  sim().hold_context(given_or_current(context), handle_of<EventHandle>(event));
}

// The simulator lets copies reach plain memory of other GPUs, and kernels no such memory: enabling
// it changes nothing.
SIMCUDA_CALL(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags), (peer, flags)) {
  if (flags != 0) refuse(CUDA_ERROR_INVALID_VALUE);
  const DeviceId here = sim().context_device(current_context());
  const DeviceId there = sim().context_device(handle_of<ContextHandle>(peer));
  if (here == there || !sim().can_access_peer(here, there)) {
    refuse(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  }
}
SIMCUDA_CALL(cuCtxDisablePeerAccess, (CUcontext peer), (peer)) {
  current_context();
  sim().context_device(handle_of<ContextHandle>(peer));
}

// --- Green contexts
SIMCUDA_CALL(cuDeviceGetDevResource,
             (CUdevice device, CUdevResource* resource, CUdevResourceType type),
             (device, resource, type)) {
  if (type != CU_DEV_RESOURCE_TYPE_SM) refuse(CUDA_ERROR_INVALID_VALUE);
  const int multiprocessors = sim().device_info(device_of(device)).multiprocessors;
  *required(resource) = {};
  resource->type = type;
  resource->sm.smCount = static_cast<unsigned int>(multiprocessors);
}

SIMCUDA_CALL(cuDevSmResourceSplitByCount,
             (CUdevResource * parts, unsigned int* count, const CUdevResource* whole,
              CUdevResource* rest, unsigned int, unsigned int least),
             (parts, count, whole, rest, 0, least)) {
  if (required(whole)->type != CU_DEV_RESOURCE_TYPE_SM) refuse(CUDA_ERROR_INVALID_VALUE);
  unsigned int left = whole->sm.smCount;
  if (least == 0 || least > left) refuse(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  const unsigned int wanted = *required(count);
  unsigned int made = 0;
  for (; left >= least && (parts == nullptr || made < wanted); ++made, left -= least) {
    if (parts == nullptr) continue;
    parts[made] = *whole;
    parts[made].sm.smCount = least;
  }
  *count = made;
  if (rest == nullptr) return;
  *rest = *whole;
  rest->sm.smCount = left;
}

SIMCUDA_CALL(cuDevResourceGenerateDesc,
             (CUdevResourceDesc * description, CUdevResource* resources, unsigned int count),
             (description, resources, count)) {
  if (count == 0) refuse(CUDA_ERROR_INVALID_VALUE);
  const auto made = std::make_shared<Resources>();
  for (unsigned int i = 0; i < count; ++i) {
    made->multiprocessors += static_cast<int>(required(resources)[i].sm.smCount);
  }
  *required(description) = native_of<CUdevResourceDesc>(descriptions().add(made));
}

SIMCUDA_CALL(cuGreenCtxCreate,
             (CUgreenCtx * context, CUdevResourceDesc description, CUdevice device,
              unsigned int flags),
             (context, description, device, flags)) {
  if (flags != CU_GREEN_CTX_DEFAULT_STREAM) refuse(CUDA_ERROR_INVALID_VALUE);
  required(context);
  const int multiprocessors =
      descriptions().at(description, CUDA_ERROR_INVALID_VALUE)->multiprocessors;
  const MutexLock lock(opening());
  const DeviceId id = device_of(device);
  // The primary context is opened first, because it must be prepared while it is empty.
  prepared(sim().retain_primary(id), id, true);
  try {
    *context =
        native_of<CUgreenCtx>(prepared(sim().create_green_context(id, multiprocessors), id, false));
  } catch (...) {
    sim().release_primary(id);
    throw;
  }
  sim().release_primary(id);
}
// It ends the use of its multiprocessors. Memory is that of the primary context.
SIMCUDA_CALL(cuGreenCtxDestroy, (CUgreenCtx context), (context)) {
  const auto green = handle_of<ContextHandle>(context);
  const DeviceId device = sim().context_device(green);
  DeviceMemory::of_process().hand_over(green, sim().retain_primary(device));
  destroy_context(green);
  sim().release_primary(device);
}
SIMCUDA_CALL(cuCtxFromGreenCtx, (CUcontext * context, CUgreenCtx green), (context, green)) {
  sim().context_device(handle_of<ContextHandle>(green));
  *required(context) = native_of<CUcontext>(handle_of<ContextHandle>(green));
}

}  // namespace vma
