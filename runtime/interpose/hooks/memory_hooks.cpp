// Memory of the program: large allocations are vmart's, and what the driver says about them is what
// it would say about its own.
#include "interpose/driver_library.hpp"
#include "interpose/hooks/hook.hpp"
#include "interpose/process.hpp"
#include "interpose/settings.hpp"
#include "interpose/vmart_library.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace vma::interpose {
namespace {

constexpr std::size_t pitch_bytes = 512;  // The driver's, for every element size.

/// Writes what the driver would for ordinary memory. Returns nothing if only the driver can tell.
std::optional<CUresult> answer(const ProgramAllocation& memory, CUdeviceptr pointer,
                               CUpointer_attribute attribute, void* data) noexcept {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *static_cast<CUcontext*>(data) = memory.context; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = CU_MEMORYTYPE_DEVICE;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *static_cast<CUdeviceptr*>(data) = pointer; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      *static_cast<void**>(data) = nullptr;
      return CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      *static_cast<unsigned long long*>(data) = memory.id;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(data) = memory.device; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      *static_cast<CUdeviceptr*>(data) = memory.begin;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: *static_cast<std::size_t*>(data) = memory.bytes; break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      *static_cast<int*>(data) = memory.synchronous_copies ? 1 : 0;
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *static_cast<int*>(data) = 0; break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<int*>(data) = memory.has_handles() ? 1 : 0;
      break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *static_cast<int*>(data) = 1; break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *static_cast<CUmemoryPool*>(data) = memory.pool;
      break;
    default: return std::nullopt;
  }
  return CUDA_SUCCESS;
}

/// Whether the driver may refuse the calling thread to allocate and to free, whatever the memory.
bool driver_must_answer() noexcept {
  Refusals& refusals = program().refusals;
  return refusals.of_current_context() != CUDA_SUCCESS || refusals.captures_may_forbid();
}

template <EntryPoint entry>
CUresult open_handle(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) noexcept {
  const auto ours = MemoryHandle::of(handle);
  if (!ours || !Settings::get().on || is_forked_child()) {
    return call_driver<entry>(out, handle, flags);
  }
  if (out == nullptr || flags > CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  return program().handles.open(*ours, out);
}

}  // namespace

CUresult hook_cuMemAlloc_v2(CUdeviceptr* out, std::size_t bytes) {
  if (out != nullptr && !driver_must_answer()) {
    const void* const caller = __builtin_return_address(0);
    bool full = false;
    if (const CUdeviceptr made = program().memory.allocate(bytes, caller, full)) {
      *out = made;
      return CUDA_SUCCESS;
    }
    if (full) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return call_driver_with_room<EntryPoint::cuMemAlloc_v2>(RoomNeed::in_current_context(bytes), out,
                                                          bytes);
}

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr* out, std::size_t* pitch, std::size_t width,
                                 std::size_t height, unsigned element_bytes) {
  const bool valid = element_bytes == 4 || element_bytes == 8 || element_bytes == 16;
  RoomNeed need = RoomNeed::in_current_context();
  if (out != nullptr && pitch != nullptr && valid && height != 0 &&
      width <= SIZE_MAX - pitch_bytes && !driver_must_answer()) {
    const std::size_t row = (width + pitch_bytes - 1) / pitch_bytes * pitch_bytes;
    const std::size_t bytes = row <= SIZE_MAX / height ? row * height : 0;
    need.bytes = bytes;
    const void* const caller = __builtin_return_address(0);
    bool full = false;
    if (const CUdeviceptr made = program().memory.allocate(bytes, caller, full)) {
      *out = made;
      *pitch = row;
      return CUDA_SUCCESS;
    }
    if (full) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return call_driver_with_room<EntryPoint::cuMemAllocPitch_v2>(need, out, pitch, width, height,
                                                               element_bytes);
}

CUresult hook_cuMemFree_v2(CUdeviceptr pointer) {
  // The driver does not know the pointer: it refuses the call, and tells why if there is a reason
  // besides.
  CUcontext context = nullptr;
  int device = 0;
  const bool may_be_refused = driver_must_answer() || !ProgramStreams::current(context, device);
  if (may_be_refused || !program().memory.free(pointer)) {
    const CUresult result = call_driver<EntryPoint::cuMemFree_v2>(pointer);
    if (!may_be_refused || result != CUDA_ERROR_INVALID_VALUE) return result;
    return program().memory.free(pointer) ? CUDA_SUCCESS : result;
  }
  return CUDA_SUCCESS;
}

CUresult hook_cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  constexpr int tries_max = 8;  // Memory may move between the two answers.
  CUcontext context = nullptr;
  int device = 0;
  if (free_bytes == nullptr || total_bytes == nullptr ||
      !ProgramStreams::current(context, device)) {
    return call_driver<EntryPoint::cuMemGetInfo_v2>(free_bytes, total_bytes);
  }
  long long hidden = program().hidden_bytes(device);
  for (int i = 0; i < tries_max; ++i) {
    const CUresult result = call_driver<EntryPoint::cuMemGetInfo_v2>(free_bytes, total_bytes);
    if (result != CUDA_SUCCESS) return result;
    const long long before = std::exchange(hidden, program().hidden_bytes(device));
    if (before == hidden) break;
  }
  const long long seen = static_cast<long long>(*free_bytes) + hidden;
  *free_bytes = std::clamp(seen, 0LL, static_cast<long long>(*total_bytes));
  program().limit_memory_info(device, *free_bytes, *total_bytes);
  return CUDA_SUCCESS;
}

CUresult hook_cuMemGetAddressRange_v2(CUdeviceptr* begin, std::size_t* bytes, CUdeviceptr inside) {
  const auto memory = program().memory.find(inside);
  if (!memory) return call_driver<EntryPoint::cuMemGetAddressRange_v2>(begin, bytes, inside);
  if (begin != nullptr) *begin = memory->begin;
  if (bytes != nullptr) *bytes = memory->bytes;
  return CUDA_SUCCESS;
}

CUresult hook_cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                    CUdeviceptr pointer) {
  const auto memory = program().memory.find(pointer);
  if (data != nullptr && memory) {
    if (const auto result = answer(*memory, pointer, attribute, data)) return *result;
  }
  const CopyScope scope(memory.has_value());
  return call_driver<EntryPoint::cuPointerGetAttribute>(data, attribute, pointer);
}

CUresult hook_cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                     CUdeviceptr pointer) {
  const auto memory = program().memory.find(pointer);
  const CopyScope scope(memory.has_value());
  const CUresult result =
      call_driver<EntryPoint::cuPointerGetAttributes>(count, attributes, data, pointer);
  if (result != CUDA_SUCCESS || !memory) return result;
  // Attributes that have no answer here keep the driver's.
  for (unsigned i = 0; i < count; ++i) answer(*memory, pointer, attributes[i], data[i]);
  return result;
}

CUresult hook_cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                    CUdeviceptr pointer) {
  ProgramMemory& memory = program().memory;
  if (!memory.find(pointer)) {
    return call_driver<EntryPoint::cuPointerSetAttribute>(value, attribute, pointer);
  }
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Programs set it before they register memory with a network card. The driver has no such
  // attribute for memory of cuMemMap, which vmart's is.
  if (*static_cast<const unsigned*>(value) == 0) return CUDA_SUCCESS;
  return memory.note_export(pointer, true) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult hook_cuMemGetHandleForAddressRange(void* handle, CUdeviceptr pointer, std::size_t bytes,
                                            CUmemRangeHandleType type, unsigned long long flags) {
  ProgramMemory& memory = program().memory;
  // Before the export, so that nothing moves between them.
  if (memory.find(pointer) && !memory.note_export(pointer, false)) return CUDA_ERROR_NOT_SUPPORTED;
  return call_driver<EntryPoint::cuMemGetHandleForAddressRange>(handle, pointer, bytes, type,
                                                                flags);
}

// --- Handles by which processes open each other's memory. Those of events are the driver's.

CUresult hook_cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr pointer) {
  const auto memory = program().memory.find(pointer);
  if (out == nullptr || !memory || !memory->has_handles()) {
    return call_driver<EntryPoint::cuIpcGetMemHandle>(out, pointer);
  }
  return program().handles.export_memory(*memory, out);
}

CUresult hook_cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  return open_handle<EntryPoint::cuIpcOpenMemHandle>(out, handle, flags);
}

CUresult hook_cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  return open_handle<EntryPoint::cuIpcOpenMemHandle_v2>(out, handle, flags);
}

CUresult hook_cuIpcCloseMemHandle(CUdeviceptr pointer) {
  if (!is_forked_child()) {
    if (const auto closed = program().handles.close(pointer)) return *closed;
  }
  return call_driver<EntryPoint::cuIpcCloseMemHandle>(pointer);
}

}  // namespace vma::interpose
