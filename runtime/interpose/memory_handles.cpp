#include "interpose/memory_handles.hpp"

#include "interpose/driver_library.hpp"
#include "interpose/process.hpp"
#include "interpose/program_streams.hpp"
#include "interpose/vmart_library.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

namespace vma::interpose {
namespace {

static_assert(sizeof(MemoryHandle) <= sizeof(CUipcMemHandle));

bool is_same(const vmart_ipc_name& a, const vmart_ipc_name& b) noexcept {
  return a.user == b.user && a.process == b.process && a.key == b.key;
}

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

CUresult MemoryHandles::export_memory(const ProgramAllocation& memory, CUipcMemHandle* out) noexcept
    try {
  static std::atomic<bool> said = false;
  const RunTable* const vmart = VmartLibrary::loaded();
  if (vmart == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  // What a `Still` keeps in place could not be made exportable.
  const auto may_move = is_exported(memory.begin) ? std::unique_lock<std::shared_mutex>()
                                                  : ProgramMemory::get().without_still();
  const std::lock_guard lock(exporting_);
  Export& entry = exports_[memory.begin];
  if (entry.served == nullptr) {
    MemoryHandle made{MemoryHandle::mark_of_ours, {}, memory.bytes, uuid_of(memory.device)};
    void* const pointer = reinterpret_cast<void*>(memory.begin);
    const vmart_status status = vmart->vmart_ipc_export(pointer, &entry.served, &made.name);
    if (status != VMART_OK) {
      exports_.erase(memory.begin);
      return refused(said, "the program cannot share memory by cuIpcGetMemHandle", status,
                     CUDA_ERROR_NOT_SUPPORTED);
    }
    entry.handle = made.as_handle();
    exports_count_.store(static_cast<int>(exports_.size()));
  }
  *out = entry.handle;
  return CUDA_SUCCESS;
} catch (const std::exception&) {
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void MemoryHandles::end_export(CUdeviceptr begin) noexcept {
  if (exports_count_.load() == 0) return;
  vmart_exported* served = nullptr;
  {
    const std::lock_guard lock(exporting_);
    const auto found = exports_.find(begin);
    if (found == exports_.end()) return;
    served = found->second.served;
    exports_.erase(found);
    exports_count_.store(static_cast<int>(exports_.size()));
  }
  VmartLibrary::loaded()->vmart_exported_release(served);
}

bool MemoryHandles::is_exported(CUdeviceptr begin) noexcept {
  const std::lock_guard lock(exporting_);
  return exports_.contains(begin);
}

bool MemoryHandles::is_exported_here(const vmart_ipc_name& name) noexcept {
  const std::lock_guard lock(exporting_);
  return std::ranges::any_of(exports_, [&](const auto& entry) {
    const auto handle = MemoryHandle::of(entry.second.handle);
    return handle && is_same(handle->name, name);
  });
}

// --- Of other processes

CUresult MemoryHandles::open(const MemoryHandle& handle, CUdeviceptr* out) noexcept try {
  // The driver's answer in the process that has made the handle.
  if (is_exported_here(handle.name)) return CUDA_ERROR_INVALID_CONTEXT;
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
  ProgramStreams::get().begin();
  made.begin = reinterpret_cast<CUdeviceptr>(pointer);
  made.bytes = handle.bytes;
  made.device = device_with(handle.gpu, made.device);
  made.opened = true;
  ProgramMemory& memory = ProgramMemory::get();
  if (!memory.add(made)) {
    vmart->vmart_free(pointer);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  try {
    opened_[made.begin] = {handle.name, made.context, 1};
  } catch (const std::exception&) {
    memory.free_opened(made.begin);
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
  ProgramMemory::get().free_opened(pointer);
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
    ProgramMemory::get().free_opened(begin);
  }
}

}  // namespace vma::interpose
