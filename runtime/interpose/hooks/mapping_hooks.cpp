// Memory that the program maps itself: handles that stand for memory of vmart are served here, all
// others by the driver. Addresses are always the driver's.
#include "interpose/driver_library.hpp"
#include "interpose/hooks/hook.hpp"

#include <cstddef>

namespace vma::interpose {
namespace {

/// Binds memory to what others reach it by, a multicast object or an endpoint. The driver gets its
/// own handle of the memory.
template <typename Call>
CUresult bind_handle(CUmemGenericAllocationHandle& handle, Call call) noexcept {
  const CUresult result = program().mappings.to_drivers(handle);
  return result == CUDA_SUCCESS ? call() : result;
}

/// The same by an address, whose memory stays in place from now on.
template <typename Call>
CUresult bind_address(CUdeviceptr pointer, Call call) noexcept {
  ProgramMemory& memory = program().memory;
  if (const auto mapped = program().mappings.find_mapped(pointer)) {
    CUmemGenericAllocationHandle unused = 0;
    const CUresult result = mapped->drivers_handle(unused);
    if (result != CUDA_SUCCESS) return result;
  } else if (const auto allocated = memory.find(pointer)) {
    // The driver takes memory of pools, and refuses that of cuMemAlloc.
    if (allocated->pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!memory.note_export(pointer, false)) return CUDA_ERROR_NOT_SUPPORTED;
  }
  return call();
}

/// Whether there is memory of vmart in the range that the program takes for ordinary memory, for
/// which the driver refuses these calls. It would carry them out, since to the driver the memory is
/// mapped.
bool is_ordinary(CUdeviceptr begin, std::size_t bytes) noexcept {
  return program().memory.any_unmapped_by_program(begin, bytes);
}

}  // namespace

CUresult hook_cuMemCreate(CUmemGenericAllocationHandle* out, std::size_t bytes,
                          const CUmemAllocationProp* properties, unsigned long long flags) {
  ProgramMappings& mappings = program().mappings;
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
  if (const auto result = program().mappings.release(handle)) return *result;
  return call_driver<EntryPoint::cuMemRelease>(handle);
}

CUresult hook_cuMemMap(CUdeviceptr begin, std::size_t bytes, std::size_t offset,
                       CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (const auto result = program().mappings.map(begin, bytes, offset, handle, flags)) {
    return *result;
  }
  return call_driver<EntryPoint::cuMemMap>(begin, bytes, offset, handle, flags);
}

CUresult hook_cuMemAddressFree(CUdeviceptr begin, std::size_t bytes) {
  if (is_ordinary(begin, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return call_driver<EntryPoint::cuMemAddressFree>(begin, bytes);
}

CUresult hook_cuMemUnmap(CUdeviceptr begin, std::size_t bytes) {
  if (is_ordinary(begin, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (const auto result = program().mappings.unmap(begin, bytes)) return *result;
  return call_driver<EntryPoint::cuMemUnmap>(begin, bytes);
}

CUresult hook_cuMemSetAccess(CUdeviceptr begin, std::size_t bytes, const CUmemAccessDesc* entries,
                             std::size_t count) {
  if (is_ordinary(begin, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (const auto result = program().mappings.set_access(begin, bytes, entries, count)) {
    return *result;
  }
  return call_driver<EntryPoint::cuMemSetAccess>(begin, bytes, entries, count);
}

CUresult hook_cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                             CUdeviceptr pointer) {
  if (flags != nullptr && location != nullptr) {
    if (const auto mapped = program().mappings.find_mapped(pointer)) {
      return mapped->get_access(flags, *location);
    }
  }
  // The driver answers for ordinary memory, too: nobody has been granted any.
  const bool ordinary = is_ordinary(pointer, 1);
  const CopyScope scope(ordinary);
  const CUresult result = call_driver<EntryPoint::cuMemGetAccess>(flags, location, pointer);
  if (result == CUDA_SUCCESS && ordinary) *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return result;
}

CUresult hook_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  const auto pointer = reinterpret_cast<CUdeviceptr>(address);
  if (out != nullptr) {
    if (const auto handle = program().mappings.retain(pointer)) {
      *out = *handle;
      return CUDA_SUCCESS;
    }
  }
  // The driver's answer for ordinary memory, which has no handle.
  if (program().memory.find(pointer)) return CUDA_ERROR_INVALID_VALUE;
  return call_driver<EntryPoint::cuMemRetainAllocationHandle>(out, address);
}

CUresult hook_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                     CUmemGenericAllocationHandle handle) {
  const auto known = program().mappings.find(handle);
  if (known == nullptr || out == nullptr) {
    return call_driver<EntryPoint::cuMemGetAllocationPropertiesFromHandle>(out, handle);
  }
  *out = known->properties();
  return CUDA_SUCCESS;
}

CUresult hook_cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                           CUmemAllocationHandleType type,
                                           unsigned long long flags) {
  ProgramMappings& mappings = program().mappings;
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
  return bind_handle(handle, [&] {
    return call_driver<EntryPoint::cuMulticastBindMem>(multicast, multicast_offset, handle, offset,
                                                       bytes, flags);
  });
}

CUresult hook_cuMulticastBindMem_v2(CUmemGenericAllocationHandle multicast, CUdevice device,
                                    std::size_t multicast_offset,
                                    CUmemGenericAllocationHandle handle, std::size_t offset,
                                    std::size_t bytes, unsigned long long flags) {
  return bind_handle(handle, [&] {
    return call_driver<EntryPoint::cuMulticastBindMem_v2>(multicast, device, multicast_offset,
                                                          handle, offset, bytes, flags);
  });
}

CUresult hook_cuMulticastBindAddr(CUmemGenericAllocationHandle multicast,
                                  std::size_t multicast_offset, CUdeviceptr pointer,
                                  std::size_t bytes, unsigned long long flags) {
  return bind_address(pointer, [&] {
    return call_driver<EntryPoint::cuMulticastBindAddr>(multicast, multicast_offset, pointer, bytes,
                                                        flags);
  });
}

CUresult hook_cuMulticastBindAddr_v2(CUmemGenericAllocationHandle multicast, CUdevice device,
                                     std::size_t multicast_offset, CUdeviceptr pointer,
                                     std::size_t bytes, unsigned long long flags) {
  return bind_address(pointer, [&] {
    return call_driver<EntryPoint::cuMulticastBindAddr_v2>(multicast, device, multicast_offset,
                                                           pointer, bytes, flags);
  });
}

CUresult hook_cuLogicalEndpointBindMem(LogicalEndpointId endpoint, CUdevice device,
                                       cuuint64_t endpoint_offset,
                                       CUmemGenericAllocationHandle handle, cuuint64_t offset,
                                       cuuint64_t bytes, unsigned long long flags) {
  return bind_handle(handle, [&] {
    return call_driver<EntryPoint::cuLogicalEndpointBindMem>(endpoint, device, endpoint_offset,
                                                             handle, offset, bytes, flags);
  });
}

CUresult hook_cuLogicalEndpointBindAddr(LogicalEndpointId endpoint, CUdevice device,
                                        cuuint64_t endpoint_offset, void* address, cuuint64_t bytes,
                                        unsigned long long flags) {
  return bind_address(reinterpret_cast<CUdeviceptr>(address), [&] {
    return call_driver<EntryPoint::cuLogicalEndpointBindAddr>(endpoint, device, endpoint_offset,
                                                              address, bytes, flags);
  });
}

}  // namespace vma::interpose
