// Memory that does not move, and the memory pools.
#include "support/cuda/library.hpp"
#include "support/cuda/memory.hpp"
#include "support/cuda/objects.hpp"

#include "base/units.hpp"

#include <array>
#include <cstring>
#include <memory>

namespace vma {
namespace {

struct Pool {
  DeviceId device{};
  std::uint64_t release_threshold = 0;
  bool is_default = false;
};

Objects<Pool>& pools() {
  static Objects<Pool>& known = *new Objects<Pool>;
  return known;
}

CUmemoryPool default_pool(DeviceId device) {
  static Mutex& mutex = *new Mutex;
  static auto& of_device = *new std::map<DeviceId, CUmemoryPool>;
  const MutexLock lock(mutex);
  CUmemoryPool& pool = of_device[device];
  if (pool == nullptr) {
    pool = native_of<CUmemoryPool>(pools().add(std::make_shared<Pool>(Pool{device, 0, true})));
  }
  return pool;
}

void allocate(CUdeviceptr* begin, std::size_t size_bytes) {
  required(begin);
  *begin = to_integer(DeviceMemory::of_process().allocate(current_context(), size_bytes));
}

void allocate_ordered(CUdeviceptr* begin, std::size_t size_bytes, DeviceId device,
                      CUstream stream) {
  required(begin);
  if (sim().is_capturing(stream_of(stream))) refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  *begin = to_integer(DeviceMemory::of_process().allocate_ordered(device, size_bytes));
}

DeviceId device_of_stream(CUstream stream) {
  const BoundStream bound = stream_of(stream);
  return sim().context_device(is_none(bound.context) ? sim().stream_context(bound.handle)
                                                     : bound.context);
}

void allocate_host(void** pointer, std::size_t size_bytes) {
  required(pointer);
  *pointer = sim().allocate_pinned(current_context(), size_bytes);
}

}  // namespace

SIM_CUDA_CALL(cuMemAlloc_v2, (CUdeviceptr * begin, std::size_t bytes), (begin, bytes)) {
  allocate(begin, bytes);
}
SIM_CUDA_CALL(cuMemAllocPitch_v2,
              (CUdeviceptr * begin, std::size_t* pitch, std::size_t width, std::size_t height,
               unsigned int element),
              (begin, pitch, width, height, element)) {
  constexpr std::size_t pitch_bytes = 512;
  if (element != 4 && element != 8 && element != 16) refuse(CUDA_ERROR_INVALID_VALUE);
  const std::size_t row = round_up(width, pitch_bytes);
  required(pitch);
  allocate(begin, row * height);
  *pitch = row;
}
SIM_CUDA_CALL(cuMemFree_v2, (CUdeviceptr begin), (begin)) {
  current_context();
  DeviceMemory::of_process().free(Address{begin});
}

SIM_CUDA_CALL(cuMemGetInfo_v2, (std::size_t * free_now, std::size_t* total), (free_now, total)) {
  const DeviceId device = sim().context_device(current_context());
  DeviceMemory::of_process().drain();
  *required(total) = sim().device_info(device).memory_bytes;
  // The simulator answers only while the primary context is active.
  sim().retain_primary(device);
  const std::uint64_t bytes = sim().free_bytes(device);
  sim().release_primary(device);
  *required(free_now) = bytes;
}

// --- Host memory
SIM_CUDA_CALL(cuMemHostAlloc, (void** pointer, std::size_t bytes, unsigned int),
              (pointer, bytes, 0)) {
  allocate_host(pointer, bytes);
}
SIM_CUDA_CALL(cuMemAllocHost_v2, (void** pointer, std::size_t bytes), (pointer, bytes)) {
  allocate_host(pointer, bytes);
}
SIM_CUDA_CALL(cuMemFreeHost, (void* pointer), (pointer)) {
  sim().free_pinned(current_context(), pointer);
}
SIM_CUDA_CALL(cuMemHostGetDevicePointer_v2, (CUdeviceptr * device, void* pointer, unsigned int),
              (device, pointer, 0)) {
  current_context();
  *required(device) = to_integer(address_of(pointer));
}
SIM_CUDA_CALL(cuMemHostGetFlags, (unsigned int* flags, void* pointer), (flags, pointer)) {
  if (sim().pointer_info(address_of(pointer)).at.kind != Location::Kind::host) {
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  *required(flags) = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
}
// Copies take any host memory, so registering it changes nothing. Kernels cannot access it.
SIM_CUDA_CALL(cuMemHostRegister_v2, (void* pointer, std::size_t bytes, unsigned int),
              (pointer, bytes, 0)) {
  current_context();
  if (bytes == 0) refuse(CUDA_ERROR_INVALID_VALUE);
  required(pointer);
}
SIM_CUDA_CALL(cuMemHostUnregister, (void* pointer), (pointer)) {
  current_context();
  required(pointer);
}
SIM_CUDA_CALL(cuMemAllocManaged, (CUdeviceptr*, std::size_t, unsigned int), (nullptr, 0, 0)) {
  refuse(CUDA_ERROR_NOT_SUPPORTED);
}

// --- Stream-ordered allocation
SIM_CUDA_STREAM_CALL(cuMemAllocAsync, _ptsz,
                     (CUdeviceptr * begin, std::size_t bytes, CUstream stream),
                     (begin, bytes, stream)) {
  allocate_ordered(begin, bytes, device_of_stream(stream), stream);
}
SIM_CUDA_STREAM_CALL(cuMemAllocFromPoolAsync, _ptsz,
                     (CUdeviceptr * begin, std::size_t bytes, CUmemoryPool pool, CUstream stream),
                     (begin, bytes, pool, stream)) {
  allocate_ordered(begin, bytes, pools().at(pool, CUDA_ERROR_INVALID_VALUE)->device, stream);
}
SIM_CUDA_STREAM_CALL(cuMemFreeAsync, _ptsz, (CUdeviceptr begin, CUstream stream), (begin, stream)) {
  DeviceMemory::of_process().free_after(stream_of(stream), Address{begin});
}

SIM_CUDA_CALL(cuDeviceGetDefaultMemPool, (CUmemoryPool * pool, CUdevice device), (pool, device)) {
  *required(pool) = default_pool(device_of(device));
}
SIM_CUDA_CALL(cuDeviceGetMemPool, (CUmemoryPool * pool, CUdevice device), (pool, device)) {
  *required(pool) = default_pool(device_of(device));
}
SIM_CUDA_CALL(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool), (device, pool)) {
  if (pool != default_pool(device_of(device))) refuse(CUDA_ERROR_NOT_SUPPORTED);
}
SIM_CUDA_CALL(cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps* properties),
              (pool, properties)) {
  if (required(properties)->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    refuse(CUDA_ERROR_NOT_SUPPORTED);
  }
  const DeviceId device = device_of(properties->location.id);
  *required(pool) = native_of<CUmemoryPool>(pools().add(std::make_shared<Pool>(Pool{device})));
}
SIM_CUDA_CALL(cuMemPoolDestroy, (CUmemoryPool pool), (pool)) {
  if (pools().at(pool, CUDA_ERROR_INVALID_VALUE)->is_default) refuse(CUDA_ERROR_INVALID_VALUE);
  pools().take(pool);
}
SIM_CUDA_CALL(cuMemPoolTrimTo, (CUmemoryPool pool, std::size_t), (pool, 0)) {
  pools().at(pool, CUDA_ERROR_INVALID_VALUE);
  DeviceMemory::of_process().drain();
}
SIM_CUDA_CALL(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute which, void* value),
              (pool, which, value)) {
  const auto known = pools().at(pool, CUDA_ERROR_INVALID_VALUE);
  if (which != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) return;
  std::memcpy(&known->release_threshold, required(value), sizeof known->release_threshold);
}
SIM_CUDA_CALL(cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute which, void* value),
              (pool, which, value)) {
  const auto known = pools().at(pool, CUDA_ERROR_INVALID_VALUE);
  const std::uint64_t words =
      which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? known->release_threshold : 0;
  const bool is_int = which <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
  std::memcpy(required(value), &words, is_int ? sizeof(int) : sizeof words);
}
SIM_CUDA_CALL(cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc*, std::size_t),
              (pool, nullptr, 0)) {
  pools().at(pool, CUDA_ERROR_INVALID_VALUE);
  refuse(CUDA_ERROR_NOT_SUPPORTED);
}

// --- Memory of other processes, which the simulator shares through descriptors only
SIM_CUDA_CALL(cuIpcGetMemHandle, (CUipcMemHandle*, CUdeviceptr), (nullptr, 0)) {
  refuse(CUDA_ERROR_NOT_SUPPORTED);
}
SIM_CUDA_CALL(cuIpcOpenMemHandle_v2, (CUdeviceptr*, CUipcMemHandle, unsigned int),
              (nullptr, {}, 0)) {
  refuse(CUDA_ERROR_NOT_SUPPORTED);
}
SIM_CUDA_CALL(cuIpcCloseMemHandle, (CUdeviceptr), (0)) {
  refuse(CUDA_ERROR_NOT_SUPPORTED);
}
SIM_CUDA_CALL(cuIpcGetEventHandle, (CUipcEventHandle*, CUevent), (nullptr, nullptr)) {
  refuse(CUDA_ERROR_NOT_SUPPORTED);
}
SIM_CUDA_CALL(cuIpcOpenEventHandle, (CUevent*, CUipcEventHandle), (nullptr, {})) {
  refuse(CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace vma
