// Memory that does not move.
#include "simcuda/library.hpp"
#include "simcuda/memory.hpp"

#include "base/units.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <unistd.h>

namespace vma {
namespace {

void allocate(CUdeviceptr* begin, std::size_t size_bytes) {
  required(begin);
  forbid_in_captures();
  *begin = to_integer(DeviceMemory::of_process().allocate(current_context(), size_bytes));
}

void allocate_host(void** pointer, std::size_t size_bytes) {
  required(pointer);
  *pointer = sim().allocate_pinned(current_context(), size_bytes);
}

/// A handle of plain memory, by which other processes cannot open it.
struct PlainHandle {
  static constexpr std::uint64_t mark_of_ours = 0x656C646E61486D53;  // "SmHandle"
  std::uint64_t mark;
  std::int64_t process;
  std::uint64_t begin;
};
static_assert(sizeof(PlainHandle) <= sizeof(CUipcMemHandle));

}  // namespace

SIMCUDA_CALL(cuMemAlloc_v2, (CUdeviceptr * begin, std::size_t bytes), (begin, bytes)) {
  allocate(begin, bytes);
}
SIMCUDA_CALL(cuMemAllocPitch_v2,
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
SIMCUDA_CALL(cuMemFree_v2, (CUdeviceptr begin), (begin)) {
  require_working(current_context());
  forbid_in_captures();
  DeviceMemory::of_process().free(Address{begin});
}

// Arrays take room, and nothing reads or writes them.
SIMCUDA_CALL(cuArrayCreate_v2, (CUarray * array, const CUDA_ARRAY_DESCRIPTOR* wanted),
             (array, wanted)) {
  required(array);
  const CUDA_ARRAY_DESCRIPTOR& shape = *required(wanted);
  const std::size_t rows = shape.Height == 0 ? 1 : shape.Height;
  if (shape.Width == 0 || shape.NumChannels != 1 || shape.Format != CU_AD_FORMAT_UNSIGNED_INT8) {
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  CUdeviceptr begin = 0;
  allocate(&begin, shape.Width * rows);
  *array = reinterpret_cast<CUarray>(begin);
}
SIMCUDA_CALL(cuArrayDestroy, (CUarray array), (array)) {
  current_context();
  DeviceMemory::of_process().free(Address{reinterpret_cast<CUdeviceptr>(array)});
}

SIMCUDA_CALL(cuMemGetInfo_v2, (std::size_t * free_now, std::size_t* total), (free_now, total)) {
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
SIMCUDA_CALL(cuMemHostAlloc, (void** pointer, std::size_t bytes, unsigned int),
             (pointer, bytes, 0)) {
  allocate_host(pointer, bytes);
}
SIMCUDA_CALL(cuMemAllocHost_v2, (void** pointer, std::size_t bytes), (pointer, bytes)) {
  allocate_host(pointer, bytes);
}
SIMCUDA_CALL(cuMemFreeHost, (void* pointer), (pointer)) {
  sim().free_pinned(current_context(), pointer);
}
SIMCUDA_CALL(cuMemHostGetDevicePointer_v2, (CUdeviceptr * device, void* pointer, unsigned int),
             (device, pointer, 0)) {
  current_context();
  *required(device) = to_integer(address_of(pointer));
}
SIMCUDA_CALL(cuMemHostGetFlags, (unsigned int* flags, void* pointer), (flags, pointer)) {
  if (sim().pointer_info(address_of(pointer)).at.kind != Place::Kind::host) {
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  *required(flags) = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
}
// Copies take any host memory, so registering it changes nothing. Kernels cannot access it.
SIMCUDA_CALL(cuMemHostRegister_v2, (void* pointer, std::size_t bytes, unsigned int),
             (pointer, bytes, 0)) {
  current_context();
  if (bytes == 0) refuse(CUDA_ERROR_INVALID_VALUE);
  required(pointer);
}
SIMCUDA_CALL(cuMemHostUnregister, (void* pointer), (pointer)) {
  current_context();
  required(pointer);
}
SIMCUDA_CALL(cuMemAllocManaged, (CUdeviceptr*, std::size_t, unsigned int), (nullptr, 0, 0)) {
  refuse(CUDA_ERROR_NOT_SUPPORTED);
}

// --- Memory of other processes, which the simulator shares through descriptors only
SIMCUDA_CALL(cuIpcGetMemHandle, (CUipcMemHandle * handle, CUdeviceptr inside), (handle, inside)) {
  required(handle);
  Address begin{};
  try {
    begin = sim().address_range(Address{inside}).begin;
  } catch (const Error&) {
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  if (is_none(DeviceMemory::of_process().context_of(begin))) refuse(CUDA_ERROR_INVALID_VALUE);
  const PlainHandle made = {PlainHandle::mark_of_ours, getpid(), to_integer(begin)};
  *handle = {};
  std::memcpy(handle, &made, sizeof made);
}
SIMCUDA_CALL(cuIpcOpenMemHandle_v2, (CUdeviceptr * begin, CUipcMemHandle handle, unsigned int),
             (begin, handle, 0)) {
  required(begin);
  PlainHandle made;
  std::memcpy(&made, &handle, sizeof made);
  // As with the driver, not where it was made.
  const bool own = made.mark == PlainHandle::mark_of_ours && made.process == getpid();
  refuse(own ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_SUPPORTED);
}
SIMCUDA_CALL(cuIpcCloseMemHandle, (CUdeviceptr), (0)) {
  refuse(CUDA_ERROR_INVALID_VALUE);
}
SIMCUDA_CALL(cuIpcGetEventHandle, (CUipcEventHandle*, CUevent), (nullptr, nullptr)) {
  refuse(CUDA_ERROR_NOT_SUPPORTED);
}
SIMCUDA_CALL(cuIpcOpenEventHandle, (CUevent*, CUipcEventHandle), (nullptr, {})) {
  refuse(CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace vma
