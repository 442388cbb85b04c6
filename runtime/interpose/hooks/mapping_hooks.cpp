// Memory that the program maps itself: handles that stand for memory of vmart are served here, all
// others by the driver. Addresses are always the driver's.
#include "interpose/driver_library.hpp"
#include "interpose/hooks.hpp"
#include "interpose/program_mappings.hpp"

#include <cstddef>

namespace vma::interpose {

CUresult hook_cuMemCreate(CUmemGenericAllocationHandle* out, std::size_t bytes,
                          const CUmemAllocationProp* properties, unsigned long long flags) {
  ProgramMappings& mappings = ProgramMappings::get();
  if (out != nullptr) {
    bool full = false;
    if (const CUmemGenericAllocationHandle made =
            mappings.create(bytes, properties, flags, __builtin_return_address(0), full)) {
      *out = made;
      return CUDA_SUCCESS;
    }
    if (full) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const RoomNeed need = properties != nullptr ? RoomNeed::at(properties->location, bytes)
                                              : RoomNeed::in_current_context(bytes);
  const CUresult result =
      call_driver_with_room<EntryPoint::cuMemCreate>(need, out, bytes, properties, flags);
  if (result == CUDA_SUCCESS) mappings.note_drivers(*out, bytes);
  return result;
}

CUresult hook_cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (const auto result = ProgramMappings::get().release(handle)) return *result;
  return call_driver<EntryPoint::cuMemRelease>(handle);
}

CUresult hook_cuMemMap(CUdeviceptr begin, std::size_t bytes, std::size_t offset,
                       CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (const auto result = ProgramMappings::get().map(begin, bytes, offset, handle, flags)) {
    return *result;
  }
  return call_driver<EntryPoint::cuMemMap>(begin, bytes, offset, handle, flags);
}

CUresult hook_cuMemUnmap(CUdeviceptr begin, std::size_t bytes) {
  if (const auto result = ProgramMappings::get().unmap(begin, bytes)) return *result;
  return call_driver<EntryPoint::cuMemUnmap>(begin, bytes);
}

CUresult hook_cuMemSetAccess(CUdeviceptr begin, std::size_t bytes, const CUmemAccessDesc* entries,
                             std::size_t count) {
  if (const auto result = ProgramMappings::get().set_access(begin, bytes, entries, count)) {
    return *result;
  }
  return call_driver<EntryPoint::cuMemSetAccess>(begin, bytes, entries, count);
}

CUresult hook_cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                             CUdeviceptr pointer) {
  if (flags != nullptr && location != nullptr) {
    if (const auto mapped = ProgramMappings::get().find_mapped(pointer)) {
      return mapped->get_access(flags, *location);
    }
  }
  return call_driver<EntryPoint::cuMemGetAccess>(flags, location, pointer);
}

CUresult hook_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  const auto pointer = reinterpret_cast<CUdeviceptr>(address);
  if (out != nullptr) {
    if (const auto handle = ProgramMappings::get().retain(pointer)) {
      *out = *handle;
      return CUDA_SUCCESS;
    }
  }
  // The driver's answer for ordinary memory, which has no handle.
  if (ProgramMemory::get().find(pointer)) return CUDA_ERROR_INVALID_VALUE;
  return call_driver<EntryPoint::cuMemRetainAllocationHandle>(out, address);
}

CUresult hook_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                     CUmemGenericAllocationHandle handle) {
  const auto known = ProgramMappings::get().find(handle);
  if (known == nullptr || out == nullptr) {
    return call_driver<EntryPoint::cuMemGetAllocationPropertiesFromHandle>(out, handle);
  }
  *out = known->properties();
  return CUDA_SUCCESS;
}

CUresult hook_cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                           CUmemAllocationHandleType type,
                                           unsigned long long flags) {
  ProgramMappings& mappings = ProgramMappings::get();
  // vmart's memory may be exportable although the program has not asked for that.
  const auto known = mappings.find(handle);
  if (known != nullptr && (known->properties().requestedHandleTypes & type) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult result = mappings.to_drivers(handle);
  if (result != CUDA_SUCCESS) return result;
  return call_driver<EntryPoint::cuMemExportToShareableHandle>(out, handle, type, flags);
}

CUresult hook_cuMulticastBindMem(CUmemGenericAllocationHandle multicast,
                                 std::size_t multicast_offset, CUmemGenericAllocationHandle handle,
                                 std::size_t offset, std::size_t bytes, unsigned long long flags) {
  const CUresult result = ProgramMappings::get().to_drivers(handle);
  if (result != CUDA_SUCCESS) return result;
  return call_driver<EntryPoint::cuMulticastBindMem>(multicast, multicast_offset, handle, offset,
                                                     bytes, flags);
}

CUresult hook_cuMulticastBindAddr(CUmemGenericAllocationHandle multicast,
                                  std::size_t multicast_offset, CUdeviceptr pointer,
                                  std::size_t bytes, unsigned long long flags) {
  if (const auto mapped = ProgramMappings::get().find_mapped(pointer)) {
    CUmemGenericAllocationHandle unused = 0;
    const CUresult result = mapped->drivers_handle(unused);  // It stays in place from now on.
    if (result != CUDA_SUCCESS) return result;
  }
  return call_driver<EntryPoint::cuMulticastBindAddr>(multicast, multicast_offset, pointer, bytes,
                                                      flags);
}

}  // namespace vma::interpose
