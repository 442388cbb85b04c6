// Handles by which processes open each other's memory. Those of events are the driver's.
#include "interpose/hooks.hpp"
#include "interpose/memory_handles.hpp"
#include "interpose/process.hpp"
#include "interpose/settings.hpp"

namespace vma::interpose {
namespace {

template <EntryPoint entry>
CUresult open_handle(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) noexcept {
  const auto ours = MemoryHandle::of(handle);
  if (!ours || !Settings::get().on || is_forked_child()) {
    return call_driver<entry>(out, handle, flags);
  }
  if (out == nullptr || flags > CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  return MemoryHandles::get().open(*ours, out);
}

}  // namespace

CUresult hook_cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr pointer) {
  const auto memory = ProgramMemory::get().find(pointer);
  if (out == nullptr || !memory || !memory->has_handles()) {
    return call_driver<EntryPoint::cuIpcGetMemHandle>(out, pointer);
  }
  return MemoryHandles::get().export_memory(*memory, out);
}

CUresult hook_cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  return open_handle<EntryPoint::cuIpcOpenMemHandle>(out, handle, flags);
}

CUresult hook_cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  return open_handle<EntryPoint::cuIpcOpenMemHandle_v2>(out, handle, flags);
}

CUresult hook_cuIpcCloseMemHandle(CUdeviceptr pointer) {
  if (!is_forked_child()) {
    if (const auto closed = MemoryHandles::get().close(pointer)) return *closed;
  }
  return call_driver<EntryPoint::cuIpcCloseMemHandle>(pointer);
}

}  // namespace vma::interpose
