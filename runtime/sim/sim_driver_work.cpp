// SimDriver's calls that enqueue work.
#include "driver/native_codes.hpp"
#include "sim/device_view.hpp"
#include "sim/ptx_parameters.hpp"
#include "sim/sim_driver.hpp"
#include "sim/sim_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vma {
void SimDriver::batch(BoundStream stream, std::span<const WordOperation> operations) {
  constexpr auto call = "cuStreamBatchMemOp";
  const CallTime time(*machine_, machine_->costs.parameters().batch_us);
  if (operations.empty()) throw driver_error(native_invalid_value, call, "no operations");
  for (const WordOperation& operation : operations) machine_->require_word(operation, call);
  const MutexLock lock(machine_->progress.mutex);
  machine_->submit(machine_->stream(stream, call),
                   BatchWork{{operations.begin(), operations.end()}}, call);
}

void SimDriver::copy(BoundStream stream, Address target, Address source, std::uint64_t size_bytes) {
  enqueue_copy(stream, target, source, size_bytes, LookUp::now);
}

void SimDriver::enqueue_copy(BoundStream stream, Address target, Address source,
                             std::uint64_t size_bytes, LookUp look_up) {
  constexpr auto call = "cuMemcpyAsync";
  const CallTime time(*machine_, machine_->costs.parameters().enqueue_us);
  bool pageable = false;
  for (const Address begin : {target, source}) {
    if (machine_->memory.covered(begin, size_bytes, pageable)) continue;
    if (look_up == LookUp::when_it_runs) continue;
    throw driver_error(native_invalid_value, call,
                       fmt::format("{} bytes at {:#x} are not all mapped and granted", size_bytes,
                                   to_integer(begin)));
  }
  MutexLock lock(machine_->progress.mutex);
  SimStream& copier = machine_->stream_after_frees(lock, stream, call);
  machine_->progress.check_fault(call);
  if (size_bytes == 0) return;
  const int device = index(copier.context().device);
  if (look_up == LookUp::now && machine_->memory.partly_read_only(device, target, size_bytes)) {
    throw driver_error(native_invalid_value, call,
                       fmt::format("gpu({}) may only read {:#x}", device, to_integer(target)));
  }
  const auto end = machine_->submit(copier, CopyWork{target, source, size_bytes}, call);
  if (!pageable || end == nullptr) return;
  machine_->progress.await(lock, end, never);
  machine_->progress.check_fault(call);
}

void SimDriver::fill(BoundStream stream, Address begin, std::byte value, std::uint64_t size_bytes) {
  enqueue_fill(stream, begin, value, size_bytes, LookUp::now);
}

void SimDriver::enqueue_fill(BoundStream stream, Address begin, std::byte value,
                             std::uint64_t size_bytes, LookUp look_up) {
  constexpr auto call = "cuMemsetD8Async";
  const CallTime time(*machine_, machine_->costs.parameters().enqueue_us);
  if (look_up == LookUp::now) machine_->require_mapped(begin, size_bytes, call);
  MutexLock lock(machine_->progress.mutex);
  SimStream& filler = machine_->stream_after_frees(lock, stream, call);
  machine_->submit(filler, FillWork{begin, value, size_bytes}, call);
}

bool SimDriver::knows(Address address) const {
  bool pageable = false;
  machine_->memory.covered(address, 1, pageable);
  return !pageable;
}

KernelHandle SimDriver::load_kernel(ContextHandle context, const Kernel& kernel) {
  const Kernel* const one = &kernel;
  return load_kernels(context, {&one, 1}, {}).front();
}

std::vector<KernelHandle> SimDriver::load_kernels(ContextHandle context,
                                                  std::span<const Kernel* const> kernels,
                                                  std::span<const std::uint64_t>) {
  constexpr auto call = "cuModuleLoadData";
  const CallTime time(*machine_, machine_->costs.parameters().load_kernel_us);
  MutexLock lock(machine_->progress.mutex);
  SimContext& owner = machine_->context(context, call);
  machine_->wait_for_frees(lock, owner);
  machine_->progress.check_fault(call);
  bool known = true;
  for (const Kernel* const kernel : kernels) {
    if (!kernel->host_body && !is_spin(kernel->entry)) {
      throw driver_error(native_invalid_ptx, call,
                         fmt::format("kernel \"{}\" has no host body to simulate", kernel->entry));
    }
    known = known && owner.code.contains({kernel->entry, kernel->ptx});
  }
  if (!known) {
    // New code is loaded only once the context is idle, even if it is another stream that is
    // stopped.
    machine_->progress.await(lock, everything_of(owner), never);
    machine_->progress.check_fault(call);
  }
  std::vector<KernelHandle> handles;
  for (const Kernel* const kernel : kernels) {
    owner.code.emplace(kernel->entry, kernel->ptx);
    const auto handle = machine_->next_handle<KernelHandle>();
    machine_->kernels[handle] =
        std::make_shared<LoadedKernel>(LoadedKernel{handle, context, *kernel});
    handles.push_back(handle);
  }
  return handles;
}

void SimDriver::unload_kernel(KernelHandle kernel) {
  const MutexLock lock(machine_->progress.mutex);
  if (machine_->kernels.erase(kernel) == 0) {
    throw driver_error(native_invalid_handle, "cuModuleUnload",
                       fmt::format("kernel {:#x}", static_cast<std::uint64_t>(kernel)));
  }
}

KernelParameters SimDriver::kernel_parameters(const void* function) {
  constexpr auto call = "cuFuncGetParamInfo";
  const CallTime time(*machine_, machine_->costs.parameters().query_us);
  const MutexLock lock(machine_->progress.mutex);
  const auto found =
      machine_->kernels.find(KernelHandle{reinterpret_cast<std::uint64_t>(function)});
  if (found == machine_->kernels.end()) {
    throw driver_error(native_invalid_handle, call, fmt::format("kernel {}", function));
  }
  const Kernel& kernel = found->second->kernel;
  if (auto parameters = ptx_parameters(kernel.ptx, kernel.entry)) {
    return {*std::move(parameters), false};
  }
  throw driver_error(
      native_not_supported, call,
      fmt::format("kernel \"{}\" has no PTX that declares its parameters", kernel.entry));
}

bool SimDriver::has_parameters(const void* function, const KernelParameters&) {
  const CallTime time(*machine_, machine_->costs.parameters().query_us);
  const MutexLock lock(machine_->progress.mutex);
  // Handles are never reused, so a known handle always names the same kernel.
  return machine_->kernels.contains(KernelHandle{reinterpret_cast<std::uint64_t>(function)});
}

void SimDriver::launch(BoundStream stream, KernelHandle kernel, LaunchShape shape,
                       const KernelArguments& arguments) {
  constexpr auto call = "cuLaunchKernel";
  const CallTime time(*machine_, machine_->costs.parameters().launch_us);
  MutexLock lock(machine_->progress.mutex);
  SimStream& launcher = machine_->stream_after_frees(lock, stream, call);
  machine_->progress.check_fault(call);
  machine_->submit(launcher,
                   machine_->kernel_work(launcher.context(), kernel, shape, arguments, call), call);
}

}  // namespace vma
