#include "driver/cuda_driver.hpp"
#include "driver/cuda_handles.hpp"
#include "driver/cuda_scope.hpp"
#include "driver/rm/channels.hpp"

#include <array>
#include <cstdio>
#include <vector>

namespace vma {
namespace {

/// Local memory for all threads that a GPU can run is what makes a context large, and the kernels
/// of the runtime use none. Limits that the driver refuses stay as they are.
void make_small(const CudaApi& api) {
  constexpr std::size_t least = 16;
  for (const CUlimit limit :
       {CU_LIMIT_STACK_SIZE, CU_LIMIT_PRINTF_FIFO_SIZE, CU_LIMIT_MALLOC_HEAP_SIZE}) {
    api.cuCtxSetLimit.attempt(limit, least);
  }
}

}  // namespace

ContextHandle CudaDriver::create_own_context(DeviceId device) {
  const rm::Channels::Creation creation(rm::Channels::of_process());
  const ContextHandle context = create_context(device);
  try {
    const CudaScope scope(api_, vma::native(context));
    make_small(api_);
    CudaScope::note_own(vma::native(context));
  } catch (...) {
    api_.cuCtxDestroy.attempt(vma::native(context));
    throw;
  }
  return context;
}

/// Throws: Error{unsupported} if the driver does not say where the GPU is.
std::uint32_t CudaDriver::gpu_id(DeviceId device) const {
  std::array<char, 64> text{};
  api_.cuDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), native(device));
  unsigned domain = 0, bus = 0, slot = 0;
  if (std::sscanf(text.data(), "%x:%x:%x", &domain, &bus, &slot) != 3) {
    throw driver_error(native_not_supported, api_.cuDeviceGetPCIBusId.name, text.data());
  }
  return rm::gpu_id_of(domain, bus, slot);
}

std::vector<std::uint32_t> CudaDriver::gpu_ids(std::span<const DeviceId> gpus) const {
  if (gpus.empty()) {
    throw driver_error(native_invalid_value, "NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS", "no GPU");
  }
  std::vector<std::uint32_t> ids;
  for (const DeviceId device : gpus) ids.push_back(gpu_id(device));
  return ids;
}

void CudaDriver::prepare_suspensions(const std::function<bool()>& given_up) {
  rm::Channels::of_process().look_ahead(given_up);
}

SuspensionHandle CudaDriver::suspend(std::span<const DeviceId> gpus) {
  return rm::Channels::of_process().suspend(gpu_ids(gpus), rm::Objects::Whose::program);
}

SuspensionHandle CudaDriver::suspend_everything(std::span<const DeviceId> gpus) {
  return rm::Channels::of_process().suspend(gpu_ids(gpus), rm::Objects::Whose::process);
}

void CudaDriver::resume(SuspensionHandle suspension) {
  rm::Channels::of_process().resume(suspension);
}

}  // namespace vma
