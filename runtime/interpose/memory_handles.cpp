#include "interpose/memory_handles.hpp"

#include "interpose/driver_library.hpp"
#include "interpose/process.hpp"
#include "interpose/vmart_library.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

namespace vma::interpose {
namespace {

static_assert(sizeof(MemoryHandle) <= sizeof(CUipcMemHandle));

CUuuid uuid_of(int device) noexcept {
  CUuuid uuid{};
  const DriverLibrary* const driver = DriverLibrary::get();
  if (driver != nullptr && driver->cuDeviceGetUuid_v2_plain != nullptr) {
    driver->cuDeviceGetUuid_v2_plain(&uuid, device);
  }
  return uuid;
}

/// The number of the GPU in this process; `otherwise` if it has none.
int device_with(const CUuuid& uuid, int otherwise) noexcept {
  const DriverLibrary* const driver = DriverLibrary::get();
  int count = 0;
  if (driver == nullptr || driver->cuDeviceGetCount_plain == nullptr ||
      driver->cuDeviceGetCount_plain(&count) != CUDA_SUCCESS) {
    return otherwise;
  }
  for (int device = 0; device < count; ++device) {
    const CUuuid known = uuid_of(device);
    if (std::memcmp(&known, &uuid, sizeof uuid) == 0) return device;
  }
  return otherwise;
}

/// Returns the answer to the program, and prints the reason the first time.
CUresult refused(std::atomic<bool>& said, const char* what, vmart_status status,
                 CUresult usual) noexcept {
  if (!said.exchange(true)) say("%s: %s", what, VmartLibrary::loaded()->vmart_last_error());
  return status == VMART_OUT_OF_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY : usual;
}

}  // namespace

std::optional<MemoryHandle> MemoryHandle::of(const CUipcMemHandle& handle) noexcept {
  MemoryHandle result;
  std::memcpy(static_cast<void*>(&result), &handle, sizeof result);
  return result.mark == mark_of_ours ? std::optional(result) : std::nullopt;
}

CUipcMemHandle MemoryHandle::as_handle() const noexcept {
  CUipcMemHandle handle{};
  std::memcpy(&handle, this, sizeof *this);
  return handle;
}

// --- Of this process

CUresult MemoryHandles::export_memory(const ProgramAllocation& memory,
                                      CUipcMemHandle* out) noexcept {
  static std::atomic<bool> said = false;
  const RunTable* const vmart = VmartLibrary::loaded();
  if (vmart == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  std::optional<ProgramAllocation> known = memory;
  if (known->exported == nullptr) {
    // What a `Pinned` keeps in place could not be made exportable.
    const auto may_move = memory_.without_pinned();
    const std::lock_guard lock(exporting_);
    known = memory_.find(memory.begin);
    // Another thread may have freed it, and may have other memory there.
    if (!known || known->id != memory.id) return CUDA_ERROR_INVALID_VALUE;
    if (known->exported == nullptr) {
      const vmart_status status = vmart->vmart_ipc_export(reinterpret_cast<void*>(known->begin),
                                                          &known->exported, &known->export_name);
      if (status != VMART_OK) {
        return refused(said, "the program cannot share memory by cuIpcGetMemHandle", status,
                       CUDA_ERROR_NOT_SUPPORTED);
      }
      if (!memory_.set_export(*known)) {
        vmart->vmart_exported_release(known->exported);  // Another thread has freed it.
        return CUDA_ERROR_INVALID_VALUE;
      }
    }
  }
  const MemoryHandle made{MemoryHandle::mark_of_ours, known->export_name, known->bytes,
                          uuid_of(known->device)};
  *out = made.as_handle();
  return CUDA_SUCCESS;
}

// --- Of other processes

CUresult MemoryHandles::open(const MemoryHandle& handle, CUdeviceptr* out) noexcept try {
  // The driver's answer in the process that has made the handle.
  if (memory_.exports(handle.name)) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(opening_);
  for (auto& [begin, opened] : opened_) {
    if (!is_same(opened.name, handle.name)) continue;
    ++opened.count;
    *out = begin;
    return CUDA_SUCCESS;
  }
  return import(handle, out);
} catch (const std::exception&) {
  return CUDA_ERROR_OUT_OF_MEMORY;
}

/// Requires: the caller holds `opening_`.
CUresult MemoryHandles::import(const MemoryHandle& handle, CUdeviceptr* out) {
  static std::atomic<bool> said = false;
  ProgramAllocation made;
  if (!ProgramStreams::current(made.context, made.device)) return CUDA_ERROR_INVALID_CONTEXT;
  const RunTable* const vmart = VmartLibrary::load();
  if (vmart == nullptr) return CUDA_ERROR_MAP_FAILED;
  void* pointer = nullptr;
  const vmart_status status = vmart->vmart_ipc_import(&handle.name, 0, &pointer);
  if (status != VMART_OK) {
    return refused(said, "the program cannot open memory of another process", status,
                   CUDA_ERROR_MAP_FAILED);
  }
  streams_.begin();
  made.begin = reinterpret_cast<CUdeviceptr>(pointer);
  made.bytes = handle.bytes;
  made.device = device_with(handle.gpu, made.device);
  made.opened = true;
  if (!memory_.add(made)) {
    vmart->vmart_free(pointer);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  try {
    opened_[made.begin] = {handle.name, made.context, 1};
  } catch (const std::exception&) {
    memory_.free_opened(made.begin);
    throw;
  }
  *out = made.begin;
  return CUDA_SUCCESS;
}

std::optional<CUresult> MemoryHandles::close(CUdeviceptr pointer) noexcept {
  {
    const std::lock_guard lock(opening_);
    const auto found = opened_.find(pointer);
    if (found == opened_.end()) return std::nullopt;
    if (--found->second.count > 0) return CUDA_SUCCESS;
    opened_.erase(found);
  }
  memory_.free_opened(pointer);
  return CUDA_SUCCESS;
}

void MemoryHandles::close_all_of(CUcontext context) noexcept {
  for (;;) {
    CUdeviceptr begin = 0;
    {
      const std::lock_guard lock(opening_);
      const auto found = std::ranges::find_if(
          opened_, [&](const auto& entry) { return entry.second.context == context; });
      if (found == opened_.end()) return;
      begin = found->first;
      opened_.erase(found);
    }
    memory_.free_opened(begin);
  }
}

}  // namespace vma::interpose
