// cuInit, and the calls on devices.
#include "simcuda/library.hpp"

#include "base/units.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace vma {
namespace {

void copy_text(const std::string& text, char* target, int size) {
  if (size <= 0) refuse(CUDA_ERROR_INVALID_VALUE);
  std::snprintf(required(target), static_cast<std::size_t>(size), "%s", text.c_str());
}

int bus_number(const std::string& pci_bus_id) {  // "0000:1A:00.0"
  return static_cast<int>(std::strtol(pci_bus_id.substr(5, 2).c_str(), nullptr, 16));
}

// Given as a number, because the headers have renamed it.
constexpr auto host_nodes_supported = static_cast<CUdevice_attribute>(141);

int attribute_of_gpu(CUdevice_attribute which, const DeviceInfo& info) {
  constexpr int launch_dimension_max = 2147483647;
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return info.multiprocessors;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return info.compute_capability / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return info.compute_capability % 10;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID: return info.host_node;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return info.copy_engines;
    case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED: return info.host_atomics ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return bus_number(info.pci_bus_id);
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return launch_dimension_max;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH: return launch_dimension_max;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: return 512;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return 49152;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: return 65536;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 1000000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 512;
    // What the simulator can do.
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case host_nodes_supported:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: return 1;
    default: return 0;
  }
}

void read_uuid(const std::string& text, CUuuid& uuid) {  // "GPU-51300000-0000-..."
  std::size_t half = 0;
  std::array<unsigned char, sizeof uuid.bytes> bytes{};
  for (const char digit : text.substr(4)) {
    if (digit == '-' || half == 2 * bytes.size()) continue;
    const char pair[] = {digit, '\0'};
    const auto value = static_cast<unsigned char>(std::strtol(pair, nullptr, 16));
    bytes[half / 2] = static_cast<unsigned char>(bytes[half / 2] << 4 | value);
    ++half;
  }
  std::memcpy(uuid.bytes, bytes.data(), bytes.size());
}

}  // namespace

SIMCUDA_CALL(cuInit, (unsigned int flags), (flags)) {
  if (flags != 0) refuse(CUDA_ERROR_INVALID_VALUE);
  open_sim();
  if (visible_devices() == 0) refuse(CUDA_ERROR_NO_DEVICE);
}

SIMCUDA_CALL(cuDriverGetVersion, (int* version), (version)) {
  *required(version) = simcuda_version;
}

SIMCUDA_CALL(cuDeviceGetCount, (int* count), (count)) {
  *required(count) = visible_devices();
}

SIMCUDA_CALL(cuDeviceGet, (CUdevice * device, int ordinal), (device, ordinal)) {
  device_of(ordinal);
  *required(device) = ordinal;
}

SIMCUDA_CALL(cuDeviceGetName, (char* name, int size, CUdevice device), (name, size, device)) {
  copy_text(sim().device_info(device_of(device)).name, name, size);
}

SIMCUDA_CALL(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device), (uuid, device)) {
  read_uuid(sim().device_info(device_of(device)).uuid, *required(uuid));
}

SIMCUDA_CALL(cuDeviceGetUuid, (CUuuid * uuid, CUdevice device), (uuid, device)) {
  read_uuid(sim().device_info(device_of(device)).uuid, *required(uuid));
}

SIMCUDA_CALL(cuDeviceGetPCIBusId, (char* id, int size, CUdevice device), (id, size, device)) {
  copy_text(sim().device_info(device_of(device)).pci_bus_id, id, size);
}

SIMCUDA_CALL(cuDeviceGetByPCIBusId, (CUdevice * device, const char* id), (device, id)) {
  for (CUdevice ordinal = 0; ordinal < visible_devices(); ++ordinal) {
    const std::string known = sim().device_info(device_of(ordinal)).pci_bus_id;
    if (known != required(id)) continue;
    *required(device) = ordinal;
    return;
  }
  refuse(CUDA_ERROR_INVALID_DEVICE);
}

SIMCUDA_CALL(cuDeviceTotalMem_v2, (std::size_t * bytes, CUdevice device), (bytes, device)) {
  *required(bytes) = sim().device_info(device_of(device)).memory_bytes;
}

SIMCUDA_CALL(cuDeviceGetAttribute, (int* value, CUdevice_attribute which, CUdevice device),
             (value, which, device)) {
  *required(value) = attribute_of_gpu(which, sim().device_info(device_of(device)));
}

SIMCUDA_CALL(cuDeviceCanAccessPeer, (int* can, CUdevice from, CUdevice to), (can, from, to)) {
  const bool other = device_of(from) != device_of(to);
  *required(can) = other && sim().can_access_peer(device_of(from), device_of(to)) ? 1 : 0;
}

SIMCUDA_CALL(cuDeviceGetP2PAttribute,
             (int* value, CUdevice_P2PAttribute which, CUdevice from, CUdevice to),
             (value, which, from, to)) {
  if (device_of(from) == device_of(to)) refuse(CUDA_ERROR_INVALID_DEVICE);
  const LinkInfo link = sim().link_info(device_of(from), device_of(to));
  switch (which) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK: *required(value) = link.performance_rank; return;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
      *required(value) = link.kind != LinkKind::none ? 1 : 0;
      return;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      *required(value) = link.native_atomics ? 1 : 0;
      return;
    default: *required(value) = 0;
  }
}

}  // namespace vma
