#include "driver/cuda_driver.hpp"

#include "base/environment.hpp"
#include "driver/cuda_handles.hpp"
#include "driver/cuda_scope.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <system_error>

namespace vma {
namespace {

/// Such as "580.159.04", from the kernel module; empty if it does not report a version.
std::string kernel_module_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  for (bool after_name = false; file >> word;) {
    const bool is_number = word.find('.') != std::string::npos &&
                           word.find_first_not_of("0123456789.") == std::string::npos;
    if (after_name && is_number) return word;
    after_name = after_name || word == "Module";
  }
  return "";
}

/// The driver reads the variable when it creates a context; the default is 8.
int queues_of_a_context() {
  constexpr int queues_default = 8;
  constexpr int queues_max = 32;
  const char* text = environment_variable("CUDA_DEVICE_MAX_CONNECTIONS");
  if (text == nullptr) return queues_default;
  const int asked = std::atoi(text);
  return asked < 1 ? queues_default : std::min(asked, queues_max);
}

}  // namespace

CudaDriver::CudaDriver() : api_(cuda_api()), kernel_version_(kernel_module_version()) {
  int count = 0;
  api_.cuDeviceGetCount(&count);
  if (count == 0) {
    throw Error(ErrorKind::no_driver, api_.cuDeviceGetCount.name,
                "the driver shows no GPU (check CUDA_VISIBLE_DEVICES); set VMART_DRIVER=sim:h200x2 "
                "for a simulated machine");
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device = 0;
    api_.cuDeviceGet(&device, ordinal);
    devices_.push_back(device);
  }
  MutexLock lock(mutex_);
  primaries_.resize(devices_.size());
}

CudaDriver::~CudaDriver() = default;

std::string CudaDriver::description() const {
  std::string text = fmt::format("CUDA {}.{}", api_.version / 1000, api_.version % 1000 / 10);
  if (!kernel_version_.empty()) text += ", driver " + kernel_version_;
  return text;
}

bool CudaDriver::has_context_hold() const {
  return api_.cuCtxRecordEvent.function != nullptr && api_.cuCtxWaitEvent.function != nullptr;
}

int CudaDriver::native(DeviceId device) const {
  if (index(device) < 0 || index(device) >= device_count()) {
    throw driver_error(native_invalid_device, api_.cuDeviceGet.name,
                       fmt::format("gpu({}) of {}", index(device), device_count()));
  }
  return devices_[static_cast<std::size_t>(index(device))];
}

int CudaDriver::attribute(int which, DeviceId device) const {
  int value = 0;
  api_.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(which), native(device));
  return value;
}

std::string CudaDriver::uuid(DeviceId device, bool mig) const {
  CUuuid bytes{};
  api_.cuDeviceGetUuid(&bytes, native(device));
  std::string text = mig ? "MIG-" : "GPU-";
  for (std::size_t i = 0; i < sizeof bytes.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(bytes.bytes[i]));
  }
  return text;
}

DeviceInfo CudaDriver::device_info(DeviceId device) {
  DeviceInfo info;
  std::array<char, 256> text{};
  api_.cuDeviceGetName(text.data(), static_cast<int>(text.size()), native(device));
  info.name = text.data();
  info.mig = info.name.find("MIG") != std::string::npos;
  info.uuid = uuid(device, info.mig);
  api_.cuDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), native(device));
  info.pci_bus_id = text.data();
  std::size_t total = 0;
  api_.cuDeviceTotalMem(&total, native(device));
  info.memory_bytes = total;
  info.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  info.compute_capability = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) * 10 +
                            attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  // The attribute is -1 on a system without NUMA.
  info.host_node = std::max(0, attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device));
  info.copy_engines = attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, device);
  info.max_queues = queues_of_a_context();
  info.vmm = attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) != 0;
  info.host_atomics = attribute(CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, device) != 0;
  return info;
}

bool CudaDriver::can_access_peer(DeviceId from, DeviceId to) {
  if (native(from) == native(to)) return true;
  int can = 0;
  api_.cuDeviceCanAccessPeer(&can, native(from), native(to));
  return can != 0;
}

LinkInfo CudaDriver::link_info(DeviceId from, DeviceId to) {
  if (native(from) == native(to)) return {LinkKind::same, true, 0};
  if (!can_access_peer(from, to)) return {};
  LinkInfo link;
  int atomics = 0;
  api_.cuDeviceGetP2PAttribute(&link.performance_rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK,
                               native(from), native(to));
  api_.cuDeviceGetP2PAttribute(&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                               native(from), native(to));
  link.native_atomics = atomics != 0;
  // The driver does not name the link. Atomics between GPUs need NVLink; PCIe has none.
  link.kind = link.native_atomics ? LinkKind::nvlink : LinkKind::pcie;
  return link;
}

int CudaDriver::probe_host_nodes() const {
  constexpr int nodes_max = 64;
  // Given as a number, because the headers have renamed it.
  constexpr int host_nodes_supported = 141;
  if (attribute(host_nodes_supported, DeviceId{0}) == 0) return 0;
  int nodes = 0;
  // Tries only nodes that the kernel knows, because checkers report a refused call as an error.
  const auto known = [](int node) {
    std::error_code none;
    return node == 0 ||
           std::filesystem::exists(fmt::format("/sys/devices/system/node/node{}", node), none);
  };
  for (; nodes < nodes_max && known(nodes); ++nodes) {
    const CUmemAllocationProp properties = chunk_properties(host(nodes));
    std::size_t size_bytes = 0;
    if (api_.cuMemGetAllocationGranularity.attempt(
            &size_bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS)
      break;
    CUmemGenericAllocationHandle chunk = 0;
    const CUresult created = api_.cuMemCreate.attempt(&chunk, size_bytes, &properties, 0);
    if (created == CUDA_ERROR_OUT_OF_MEMORY) continue;  // The node exists but is full.
    if (created != CUDA_SUCCESS) break;
    api_.cuMemRelease(chunk);
  }
  return nodes;
}

int CudaDriver::host_node_count() {
  const CudaScope scope(api_);
  MutexLock lock(mutex_);
  if (!host_nodes_) host_nodes_ = probe_host_nodes();
  return *host_nodes_;
}

std::uint64_t CudaDriver::free_bytes(DeviceId device) {
  if (!context_active(device)) return 0;
  CUcontext context = nullptr;
  api_.cuDevicePrimaryCtxRetain(&context, native(device));
  std::size_t free_now = 0;
  std::size_t total = 0;
  CUresult result = CUDA_SUCCESS;
  {
    const CudaScope scope(api_, context);
    result = api_.cuMemGetInfo.attempt(&free_now, &total);
  }
  api_.cuDevicePrimaryCtxRelease.attempt(native(device));
  if (result != CUDA_SUCCESS) {
    throw driver_error(result, api_.cuMemGetInfo.name, fmt::format("gpu({})", index(device)));
  }
  return free_now;
}

}  // namespace vma
