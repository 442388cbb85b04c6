#include "driver/captures_begun.hpp"
#include "driver/cuda_driver.hpp"
#include "driver/cuda_handles.hpp"
#include "driver/cuda_scope.hpp"
#include "driver/rm/channels.hpp"
#include "driver/spare_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <vector>

namespace vma {
namespace {

/// Local memory for all threads that a GPU can run is what makes a context large, and the kernels
/// of the runtime use none. Limits that the driver refuses stay as they are.
void make_small(const CudaApi& api) {
  constexpr std::size_t least = 16;
  for (const CUlimit limit :
       {CU_LIMIT_STACK_SIZE, CU_LIMIT_PRINTF_FIFO_SIZE, CU_LIMIT_MALLOC_HEAP_SIZE}) {
    api.cuCtxSetLimit.attempt(limit, least);
  }
}

}  // namespace

bool CudaDriver::context_active(DeviceId device) {
  unsigned int flags = 0;
  int active = 0;
  api_.cuDevicePrimaryCtxGetState(native(device), &flags, &active);
  return active != 0;
}

void* CudaDriver::retained_context() {
  MutexLock lock(mutex_);
  for (const Primary& primary : primaries_) {
    if (primary.retained > 0) return primary.context;
  }
  return nullptr;
}

ContextHandle CudaDriver::retain_primary(DeviceId device) {
  const CudaScope scope(api_);
  CUcontext context = nullptr;
  api_.cuDevicePrimaryCtxRetain(&context, native(device));
  MutexLock lock(mutex_);
  Primary& primary = primaries_[static_cast<std::size_t>(index(device))];
  primary.context = context;
  ++primary.retained;
  return handle_of<ContextHandle>(context);
}

void CudaDriver::release_primary(DeviceId device) {
  const CudaScope scope(api_);
  const CUdevice number = native(device);
  MutexLock lock(mutex_);
  Primary& primary = primaries_[static_cast<std::size_t>(index(device))];
  --primary.retained;
  lock.unlock();  // The last release waits for the context's work.
  const CUresult result = api_.cuDevicePrimaryCtxRelease.attempt(number);
  if (result == CUDA_SUCCESS) return;
  lock.lock();
  ++primary.retained;
  throw driver_error(result, api_.cuDevicePrimaryCtxRelease.name,
                     fmt::format("gpu({})", index(device)));
}

ContextHandle CudaDriver::create_context(DeviceId device) {
  const CudaScope scope(api_);
  CUcontext context = nullptr;
  api_.cuCtxCreate(&context, CU_CTX_SCHED_AUTO, native(device));
  CUcontext popped = nullptr;
  api_.cuCtxPopCurrent(&popped);  // Undoes a side effect: creating a context makes it current.
  return handle_of<ContextHandle>(context);
}

ContextHandle CudaDriver::create_green_context(DeviceId device, int multiprocessors) {
  const CudaScope scope(api_);
  const CUdevice number = native(device);
  CUdevResource all{}, part{};
  api_.cuDeviceGetDevResource(number, &all, CU_DEV_RESOURCE_TYPE_SM);
  unsigned int parts = 1;
  api_.cuDevSmResourceSplitByCount(&part, &parts, &all, nullptr, 0,
                                   static_cast<unsigned int>(multiprocessors));
  CUdevResourceDesc description = nullptr;
  api_.cuDevResourceGenerateDesc(&description, &part, 1);
  CUgreenCtx green = nullptr;
  api_.cuGreenCtxCreate(&green, description, number, CU_GREEN_CTX_DEFAULT_STREAM);
  try {
    CUcontext context = nullptr;
    api_.cuCtxFromGreenCtx(&context, green);
    const auto handle = handle_of<ContextHandle>(context);
    const MutexLock lock(mutex_);
    greens_[handle] = green;
    return handle;
  } catch (...) {
    api_.cuGreenCtxDestroy.attempt(green);
    throw;
  }
}

void CudaDriver::destroy_context(ContextHandle context) {
  const CudaScope scope(api_);
  MutexLock lock(mutex_);
  const auto green = greens_.find(context);
  if (green == greens_.end()) {
    lock.unlock();
    CudaScope::forget_own(vma::native(context));  // The next context may get the same handle.
    return api_.cuCtxDestroy(vma::native(context));
  }
  const auto destroyed = static_cast<CUgreenCtx>(green->second);
  lock.unlock();  // It may release the primary context, which waits for that context's work.
  api_.cuGreenCtxDestroy(destroyed);
  lock.lock();
  greens_.erase(context);
}

ContextHandle CudaDriver::current_context() {
  CUcontext context = nullptr;
  api_.cuCtxGetCurrent(&context);
  return handle_of<ContextHandle>(context);
}

void CudaDriver::set_current_context(ContextHandle context) {
  api_.cuCtxSetCurrent(vma::native(context));
}

std::uint64_t CudaDriver::context_id(ContextHandle context) {
  unsigned long long id = 0;
  api_.cuCtxGetId(vma::native(context), &id);
  return id;
}

DeviceId CudaDriver::context_device(ContextHandle context) {
  const CudaScope scope(api_, vma::native(context));
  CUdevice device = 0;
  api_.cuCtxGetDevice(&device);
  const auto found = std::find(devices_.begin(), devices_.end(), device);
  if (found == devices_.end()) {
    throw driver_error(
        native_invalid_device, api_.cuCtxGetDevice.name,
        fmt::format("device {} of context {:#x}", device, static_cast<std::uint64_t>(context)));
  }
  return DeviceId{static_cast<int>(found - devices_.begin())};
}

/// Once a stream may have begun to capture, waits for a context by unloading a module: that waits
/// for the work of its context, invalidates no capture and blocks no launch. The alternatives fail
/// then: cuCtxSynchronize and cuCtxRecordEvent end captures, and during cuMemFree no other thread
/// can launch.
/// Loading a module may wait as well, and blocks launches of other threads meanwhile (driver 580).
/// So the kernels that are unloaded here are loaded in advance, in calls of the program, and not
/// during a stop (`SpareKernels::Pause`).
/// Threads of the runtime also load other kernels: the one that stops streams at a context's first
/// gate, and those of live copies at the first one from a GPU. Until such a load returns, the
/// program's launches may block. If running work waits for one of these launches, neither ends.
void CudaDriver::synchronize_context(ContextHandle context) {
  if (const CapturesBegun::Wait wait(CapturesBegun::of_process()); wait.none_has()) {
    const CudaScope scope(api_, vma::native(context));
    api_.cuCtxSynchronize();
    return;
  }
  // Any module will do. This one has code for the GPU, so that nothing is compiled.
  const auto load = [&] { return load_stopper(context); };
  SpareKernels& kernels = SpareKernels::of_process();
  unload_kernel(is_retained(context) ? kernels.take(context_id(context), clock_, load)
                                     : kernels.take_unkept(load));
}

bool CudaDriver::is_retained(ContextHandle context) {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(primaries_, [&](const Primary& primary) {
    return primary.retained > 0 && primary.context == vma::native(context);
  });
}

void CudaDriver::record_context(ContextHandle context, EventHandle event) {
  const CudaScope scope(api_, vma::native(context));
  api_.cuCtxRecordEvent(vma::native(context), vma::native(event));
}

void CudaDriver::hold_context(ContextHandle context, EventHandle event) {
  const CudaScope scope(api_, vma::native(context));
  api_.cuCtxWaitEvent(vma::native(context), vma::native(event));
}

void* CudaDriver::allocate_pinned(ContextHandle context, std::size_t size_bytes) {
  const CudaScope scope(api_, vma::native(context));
  void* pointer = nullptr;
  api_.cuMemHostAlloc(&pointer, size_bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  std::memset(pointer, 0, size_bytes);
  return pointer;
}

void CudaDriver::free_pinned(ContextHandle context, void* pointer) {
  const CudaScope scope(api_, vma::native(context));
  api_.cuMemFreeHost(pointer);
}

Address CudaDriver::allocate_plain(ContextHandle context, std::size_t size_bytes) {
  const CudaScope scope(api_, vma::native(context));
  CUdeviceptr begin = 0;
  api_.cuMemAlloc(&begin, size_bytes);
  return Address{begin};
}

void CudaDriver::free_plain(ContextHandle context, Address begin) {
  const CudaScope scope(api_, vma::native(context));
  api_.cuMemFree(vma::native(begin));
}

ContextHandle CudaDriver::create_own_context(DeviceId device) {
  const rm::Channels::Creation creation(rm::Channels::of_process());
  const ContextHandle context = create_context(device);
  try {
    const CudaScope scope(api_, vma::native(context));
    make_small(api_);
    CudaScope::note_own(vma::native(context));
  } catch (...) {
    api_.cuCtxDestroy.attempt(vma::native(context));
    throw;
  }
  return context;
}

/// Throws: Error{unsupported} if the driver does not say where the GPU is.
std::uint32_t CudaDriver::gpu_id(DeviceId device) const {
  std::array<char, 64> text{};
  api_.cuDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), native(device));
  unsigned domain = 0, bus = 0, slot = 0;
  if (std::sscanf(text.data(), "%x:%x:%x", &domain, &bus, &slot) != 3) {
    throw driver_error(native_not_supported, api_.cuDeviceGetPCIBusId.name, text.data());
  }
  return rm::gpu_id_of(domain, bus, slot);
}

std::vector<std::uint32_t> CudaDriver::gpu_ids(std::span<const DeviceId> gpus) const {
  if (gpus.empty()) {
    throw driver_error(native_invalid_value, "NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS", "no GPU");
  }
  std::vector<std::uint32_t> ids;
  for (const DeviceId device : gpus) ids.push_back(gpu_id(device));
  return ids;
}

void CudaDriver::prepare_suspensions(const std::function<bool()>& given_up) {
  rm::Channels::of_process().look_ahead(given_up);
}

SuspensionHandle CudaDriver::suspend(std::span<const DeviceId> gpus) {
  return rm::Channels::of_process().suspend(gpu_ids(gpus), rm::Objects::Whose::program);
}

SuspensionHandle CudaDriver::suspend_everything(std::span<const DeviceId> gpus) {
  return rm::Channels::of_process().suspend(gpu_ids(gpus), rm::Objects::Whose::process);
}

void CudaDriver::resume(SuspensionHandle suspension) {
  rm::Channels::of_process().resume(suspension);
}

}  // namespace vma
