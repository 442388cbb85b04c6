// Virtual memory, and the queries about pointers.
#include "simcuda/library.hpp"
#include "simcuda/memory.hpp"

#include <cstring>
#include <vector>

namespace vma {
namespace {

Access access_of(CUmemAccess_flags flags) {
  switch (flags) {
    case CU_MEM_ACCESS_FLAGS_PROT_NONE: return Access::none;
    case CU_MEM_ACCESS_FLAGS_PROT_READ: return Access::read;
    case CU_MEM_ACCESS_FLAGS_PROT_READWRITE: return Access::read_write;
    default: refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

CUmemAccess_flags flags_of(Access access) {
  switch (access) {
    case Access::none: return CU_MEM_ACCESS_FLAGS_PROT_NONE;
    case Access::read: return CU_MEM_ACCESS_FLAGS_PROT_READ;
    case Access::read_write: return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  return CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

template <typename Value>
void put(void* out, Value value) {
  std::memcpy(out, &value, sizeof value);
}

CUcontext context_of(Address address, const PointerInfo& info) {
  if (!info.has_context) return nullptr;
  return native_of<CUcontext>(
      DeviceMemory::of_process().context_of(sim().address_range(address).begin));
}

/// Throws: for memory that is not the driver's.
void pointer_attribute(CUpointer_attribute which, Address address, void* out) {
  const PointerInfo info = sim().pointer_info(address);
  const bool on_gpu = info.at.kind == Place::Kind::gpu;
  const auto type = on_gpu ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return put(out, context_of(address, info));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return put(out, static_cast<unsigned int>(type));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return put(out, CUdeviceptr{to_integer(address)});
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (on_gpu) refuse(CUDA_ERROR_INVALID_VALUE);
      return put(out, to_pointer(address));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return put(out, std::uint64_t{info.buffer_id});
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(out, on_gpu ? ordinal_of(DeviceId{info.at.ordinal}) : 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(out, CUdeviceptr{to_integer(sim().address_range(address).begin)});
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(out, std::size_t{DeviceMemory::of_process().range_around(address).size_bytes});
    case CU_POINTER_ATTRIBUTE_MAPPED: return put(out, 1);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return put(out, 0);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put(out, context_of(address, info) != nullptr ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return put(out, std::uint64_t{0});
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put(out, DeviceMemory::of_process().pool_of(sim().address_range(address).begin));
    default: refuse(CUDA_ERROR_NOT_SUPPORTED);
  }
}

std::size_t attribute_bytes(CUpointer_attribute which) {
  switch (which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED: return sizeof(int);
    default: return sizeof(std::uint64_t);
  }
}

}  // namespace

SIMCUDA_CALL(cuMemGetAllocationGranularity,
             (std::size_t * bytes, const CUmemAllocationProp* properties,
              CUmemAllocationGranularity_flags),
             (bytes, properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM)) {
  *required(bytes) = sim().granularity(location_of(required(properties)->location));
}

SIMCUDA_CALL(cuMemAddressReserve,
             (CUdeviceptr * begin, std::size_t bytes, std::size_t alignment, CUdeviceptr,
              unsigned long long flags),
             (begin, bytes, alignment, 0, flags)) {
  if (flags != 0) refuse(CUDA_ERROR_INVALID_VALUE);
  required(begin);
  *begin = to_integer(sim().reserve(bytes, alignment));
}
SIMCUDA_CALL(cuMemAddressFree, (CUdeviceptr begin, std::size_t bytes), (begin, bytes)) {
  sim().unreserve(Address{begin}, bytes);
}

SIMCUDA_CALL(cuMemCreate,
             (CUmemGenericAllocationHandle * chunk, std::size_t bytes,
              const CUmemAllocationProp* properties, unsigned long long flags),
             (chunk, bytes, properties, flags)) {
  if (flags != 0 || required(properties)->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  required(chunk);
  const unsigned int handles = properties->requestedHandleTypes;
  ExportTypes types;
  types.descriptor = (handles & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
  types.fabric = (handles & CU_MEM_HANDLE_TYPE_FABRIC) != 0;
  types.rdma = properties->allocFlags.gpuDirectRDMACapable != 0;
  const Place at = location_of(properties->location);
  const ChunkHandle made =
      types.any() ? sim().create_exportable(at, bytes, types) : sim().create(at, bytes);
  ChunkProperties::of_process().created(made, *properties);
  *chunk = static_cast<CUmemGenericAllocationHandle>(made);
}
SIMCUDA_CALL(cuMemRelease, (CUmemGenericAllocationHandle chunk), (chunk)) {
  sim().release(ChunkHandle{chunk});
  ChunkProperties::of_process().released(ChunkHandle{chunk});
}

SIMCUDA_CALL(cuMemMap,
             (CUdeviceptr begin, std::size_t bytes, std::size_t offset,
              CUmemGenericAllocationHandle chunk, unsigned long long flags),
             (begin, bytes, offset, chunk, flags)) {
  if (offset != 0 || flags != 0) refuse(CUDA_ERROR_INVALID_VALUE);
  sim().map(Address{begin}, bytes, ChunkHandle{chunk});
}
SIMCUDA_CALL(cuMemUnmap, (CUdeviceptr begin, std::size_t bytes), (begin, bytes)) {
  sim().unmap(Address{begin}, bytes);
}

SIMCUDA_CALL(cuMemSetAccess,
             (CUdeviceptr begin, std::size_t bytes, const CUmemAccessDesc* entries,
              std::size_t count),
             (begin, bytes, entries, count)) {
  if (count == 0) refuse(CUDA_ERROR_INVALID_VALUE);
  std::vector<Accessor> accessors;
  for (std::size_t i = 0; i < count; ++i) {
    const CUmemAccessDesc& entry = required(entries)[i];
    accessors.push_back({location_of(entry.location), access_of(entry.flags)});
  }
  sim().grant(Address{begin}, bytes, accessors);
}
SIMCUDA_CALL(cuMemGetAccess,
             (unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address),
             (flags, location, address)) {
  const Place at = location_of(*required(location));
  required(flags);
  // As on H200, plain memory has an answer: nobody has been granted any.
  if (sim().pointer_info(Address{address}).has_context) {
    *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return;
  }
  *flags = flags_of(sim().access(Address{address}, at));
}

SIMCUDA_CALL(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * chunk, void* address),
             (chunk, address)) {
  required(chunk);
  const ChunkHandle retained = sim().retain_handle(address_of(address));
  ChunkProperties::of_process().retained(retained, address_of(address));
  *chunk = static_cast<CUmemGenericAllocationHandle>(retained);
}
SIMCUDA_CALL(cuMemGetAllocationPropertiesFromHandle,
             (CUmemAllocationProp * properties, CUmemGenericAllocationHandle chunk),
             (properties, chunk)) {
  *required(properties) = ChunkProperties::of_process().of(ChunkHandle{chunk});
}

SIMCUDA_CALL(cuMemExportToShareableHandle,
             (void* out, CUmemGenericAllocationHandle chunk, CUmemAllocationHandleType type,
              unsigned long long),
             (out, chunk, type, 0)) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) refuse(CUDA_ERROR_NOT_SUPPORTED);
  put(required(out), sim().export_chunk(ChunkHandle{chunk}));
}
SIMCUDA_CALL(cuMemImportFromShareableHandle,
             (CUmemGenericAllocationHandle * chunk, void* handle, CUmemAllocationHandleType type),
             (chunk, handle, type)) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) refuse(CUDA_ERROR_NOT_SUPPORTED);
  required(chunk);
  const auto descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(handle));
  *chunk = static_cast<CUmemGenericAllocationHandle>(sim().import_chunk(descriptor));
}

SIMCUDA_CALL(cuMemGetAddressRange_v2,
             (CUdeviceptr * begin, std::size_t* bytes, CUdeviceptr address),
             (begin, bytes, address)) {
  const AddressRange range = DeviceMemory::of_process().range_around(Address{address});
  if (begin != nullptr) *begin = to_integer(range.begin);
  if (bytes != nullptr) *bytes = range.size_bytes;
}

SIMCUDA_CALL(cuPointerGetAttribute, (void* out, CUpointer_attribute which, CUdeviceptr address),
             (out, which, address)) {
  pointer_attribute(which, Address{address}, required(out));
}
// For memory that is not the driver's, all are zero, and so is what the memory does not have.
SIMCUDA_CALL(cuPointerGetAttributes,
             (unsigned int count, CUpointer_attribute* which, void** out, CUdeviceptr address),
             (count, which, out, address)) {
  sim();
  required(which);
  for (unsigned int i = 0; i < count; ++i) {
    void* const value = required(required(out)[i]);
    const CUresult result =
        at_boundary([&] { pointer_attribute(which[i], Address{address}, value); });
    if (result != CUDA_SUCCESS) std::memset(value, 0, attribute_bytes(which[i]));
  }
}

}  // namespace vma
