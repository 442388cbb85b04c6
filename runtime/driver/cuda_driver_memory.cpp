#include "driver/cuda_driver.hpp"

#include "base/printable.hpp"
#include "driver/cuda_handles.hpp"
#include "driver/cuda_scope.hpp"

#include <fcntl.h>

#include <array>

namespace vma {
namespace {

CUmemAccess_flags native_access(Access access) {
  switch (access) {
    case Access::none: return CU_MEM_ACCESS_FLAGS_PROT_NONE;
    case Access::read: return CU_MEM_ACCESS_FLAGS_PROT_READ;
    case Access::read_write: return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  return CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

Access access_of(unsigned long long flags) {
  if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return Access::read_write;
  return flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? Access::read : Access::none;
}

/// The CPU is one accessor for all nodes; the driver ignores the number.
CUmemLocation accessor_location(Place who) {
  CUmemLocation location = native_location(who);
  if (who.kind == Place::Kind::host) location = {CU_MEM_LOCATION_TYPE_HOST, 0};
  return location;
}

std::string list_of(std::span<const Accessor> accessors) {
  std::string text;
  for (const Accessor& accessor : accessors) text += " " + to_string(accessor.who);
  return text;
}

}  // namespace

std::uint64_t CudaDriver::granularity(Place at) {
  const CudaScope scope(api_);
  const CUmemAllocationProp properties = chunk_properties(at);
  std::size_t bytes = 0;
  const CUresult result = api_.cuMemGetAllocationGranularity.attempt(
      &bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result != CUDA_SUCCESS) {
    throw driver_error(result, api_.cuMemGetAllocationGranularity.name, to_string(at));
  }
  return bytes;
}

Address CudaDriver::reserve(std::uint64_t size_bytes, std::uint64_t alignment) {
  const CudaScope scope(api_);
  CUdeviceptr begin = 0;
  api_.cuMemAddressReserve(&begin, size_bytes, alignment, 0, 0);
  return Address{begin};
}

void CudaDriver::unreserve(Address begin, std::uint64_t size_bytes) {
  const CudaScope scope(api_);
  api_.cuMemAddressFree(vma::native(begin), size_bytes);
}

ChunkHandle CudaDriver::create(Place at, std::uint64_t size_bytes) {
  return create_exportable(at, size_bytes, {});
}

ExportTypes CudaDriver::export_types(Place at) {
  const CudaScope scope(api_);
  const bool on_gpu = at.kind == Place::Kind::gpu;
  // For host memory, the answer of any GPU holds.
  const DeviceId device{on_gpu ? at.ordinal : 0};
  ExportTypes types;
  types.descriptor =
      attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device) != 0;
  types.fabric = attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, device) > 0;
  types.rdma =
      on_gpu && attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device) != 0;
  return types;
}

ChunkHandle CudaDriver::create_exportable(Place at, std::uint64_t size_bytes, ExportTypes types) {
  const CudaScope scope(api_);
  const CUmemAllocationProp properties = chunk_properties(at, types);
  CUmemGenericAllocationHandle chunk = 0;
  const CUresult result = api_.cuMemCreate.attempt(&chunk, size_bytes, &properties, 0);
  if (result != CUDA_SUCCESS) {
    throw driver_error(result, api_.cuMemCreate.name,
                       fmt::format("{} at {}", bytes_text(size_bytes), to_string(at)));
  }
  return ChunkHandle{chunk};
}

int CudaDriver::export_chunk(ChunkHandle chunk) {
  const CudaScope scope(api_);
  int descriptor = -1;
  api_.cuMemExportToShareableHandle(&descriptor, vma::native(chunk),
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);  // Programs that this process executes do not get it.
  return descriptor;
}

ChunkHandle CudaDriver::import_chunk(int descriptor) {
  const CudaScope scope(api_);
  CUmemGenericAllocationHandle chunk = 0;
  api_.cuMemImportFromShareableHandle(
      &chunk, reinterpret_cast<void*>(static_cast<std::uintptr_t>(descriptor)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  return ChunkHandle{chunk};
}

void CudaDriver::release(ChunkHandle chunk) {
  const CudaScope scope(api_);
  api_.cuMemRelease(vma::native(chunk));
}

void CudaDriver::map(Address begin, std::uint64_t size_bytes, ChunkHandle chunk) {
  const CudaScope scope(api_);
  api_.cuMemMap(vma::native(begin), size_bytes, 0, vma::native(chunk), 0);
}

void CudaDriver::unmap(Address begin, std::uint64_t size_bytes) {
  const CudaScope scope(api_);
  api_.cuMemUnmap(vma::native(begin), size_bytes);
}

void CudaDriver::grant(Address begin, std::uint64_t size_bytes,
                       std::span<const Accessor> accessors) {
  const CudaScope scope(api_);
  // Does not use the heap: if host memory runs out, the slot must not stay dark.
  constexpr std::size_t few_max = 32;
  std::array<CUmemAccessDesc, few_max> few;
  std::vector<CUmemAccessDesc> many(accessors.size() > few_max ? accessors.size() : 0);
  CUmemAccessDesc* const entries = many.empty() ? few.data() : many.data();
  std::size_t count = 0;
  for (const Accessor& accessor : accessors) {
    CUmemAccessDesc entry{};
    entry.location = accessor_location(accessor.who);
    entry.flags = native_access(accessor.access);
    entries[count++] = entry;
  }
  const CUresult result =
      api_.cuMemSetAccess.attempt(vma::native(begin), size_bytes, entries, count);
  if (result == CUDA_SUCCESS) return;
  throw driver_error(result, api_.cuMemSetAccess.name,
                     fmt::format("{} at {:#x} for{}", bytes_text(size_bytes), to_integer(begin),
                                 list_of(accessors)));
}

Access CudaDriver::access(Address address, Place who) {
  const CudaScope scope(api_);
  unsigned long long flags = 0;
  CUmemLocation location = accessor_location(who);
  CUresult result = api_.cuMemGetAccess.attempt(&flags, &location, vma::native(address));
  if (result == CUDA_ERROR_INVALID_VALUE && who.kind == Place::Kind::host) {
    location = native_location(who);  // Only access by a node can be queried.
    result = api_.cuMemGetAccess.attempt(&flags, &location, vma::native(address));
  }
  if (result != CUDA_SUCCESS) {
    throw driver_error(result, api_.cuMemGetAccess.name,
                       fmt::format("{:#x} by {}", to_integer(address), to_string(who)));
  }
  return access_of(flags);
}

ChunkHandle CudaDriver::retain_handle(Address address) {
  const CudaScope scope(api_);
  CUmemGenericAllocationHandle chunk = 0;
  api_.cuMemRetainAllocationHandle(&chunk, to_pointer(address));
  return ChunkHandle{chunk};
}

AddressRange CudaDriver::address_range(Address address) {
  const CudaScope scope(api_, FallbackContext{static_cast<CUcontext>(retained_context())});
  CUdeviceptr begin = 0;
  std::size_t size_bytes = 0;
  api_.cuMemGetAddressRange(&begin, &size_bytes, vma::native(address));
  return {Address{begin}, size_bytes};
}

Place CudaDriver::home_of(Address address) const {
  CUmemGenericAllocationHandle chunk = 0;
  CUmemAllocationProp properties{};
  // The memory type of a chunk in host memory is undocumented, but its properties are.
  if (api_.cuMemRetainAllocationHandle.attempt(&chunk, to_pointer(address)) == CUDA_SUCCESS) {
    const CUresult result = api_.cuMemGetAllocationPropertiesFromHandle.attempt(&properties, chunk);
    api_.cuMemRelease(chunk);
    if (result == CUDA_SUCCESS && properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
      return host(properties.location.id);
    }
  }
  unsigned int type = 0;
  api_.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, vma::native(address));
  if (type == CU_MEMORYTYPE_HOST) return host(0);  // Pinned memory; the driver reports no node.
  int ordinal = 0;
  api_.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, vma::native(address));
  return gpu(ordinal);
}

PointerInfo CudaDriver::pointer_info(Address address) {
  const CudaScope scope(api_);
  const CUdeviceptr pointer = vma::native(address);
  PointerInfo info;
  unsigned long long buffer = 0;
  api_.cuPointerGetAttribute(&buffer, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer);
  info.buffer_id = buffer;
  info.at = home_of(address);
  CUcontext context = nullptr;
  const CUresult result =
      api_.cuPointerGetAttribute.attempt(&context, CU_POINTER_ATTRIBUTE_CONTEXT, pointer);
  info.has_context = result == CUDA_SUCCESS && context != nullptr;
  return info;
}

}  // namespace vma
