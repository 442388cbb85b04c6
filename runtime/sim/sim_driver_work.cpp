// SimDriver's calls that enqueue work, capture it and play it again.
#include "driver/native_codes.hpp"
#include "sim/device_view.hpp"
#include "sim/sim_driver.hpp"
#include "sim/sim_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vma {
namespace {

void require_device_range(const SimMemory& memory, Address begin, std::uint64_t size_bytes,
                          const char* call) {
  bool pageable = false;
  if (!memory.covered(begin, size_bytes, pageable) || pageable) {
    throw driver_error(
        native_invalid_value, call,
        fmt::format("{} bytes at {:#x} are not all mapped", size_bytes, to_integer(begin)));
  }
}

bool fits(const LaunchShape& shape) {
  const auto threads = static_cast<std::uint64_t>(shape.block.x) * shape.block.y * shape.block.z;
  return shape.grid.x > 0 && shape.grid.y > 0 && shape.grid.z > 0 && threads > 0 && threads <= 1024;
}

}  // namespace

void SimDriver::batch(BoundStream stream, std::span<const WordOperation> operations) {
  constexpr auto call = "cuStreamBatchMemOp";
  const CallTime time(*machine_, machine_->costs.parameters().batch_us);
  if (operations.empty()) throw driver_error(native_invalid_value, call, "no operations");
  for (const WordOperation& operation : operations) {
    if (to_integer(operation.word) % sizeof operation.value != 0) {
      throw driver_error(native_invalid_value, call,
                         fmt::format("word at {:#x} is not aligned", to_integer(operation.word)));
    }
    require_device_range(machine_->memory, operation.word, sizeof operation.value, call);
  }
  const MutexLock lock(machine_->progress.mutex);
  machine_->submit(machine_->stream(stream, call),
                   BatchWork{{operations.begin(), operations.end()}}, call);
}

void SimDriver::copy(BoundStream stream, Address target, Address source, std::uint64_t size_bytes) {
  constexpr auto call = "cuMemcpyAsync";
  const CallTime time(*machine_, machine_->costs.parameters().enqueue_us);
  bool pageable = false;
  for (const Address begin : {target, source}) {
    if (!machine_->memory.covered(begin, size_bytes, pageable)) {
      throw driver_error(
          native_invalid_value, call,
          fmt::format("{} bytes at {:#x} are not all mapped", size_bytes, to_integer(begin)));
    }
  }
  MutexLock lock(machine_->progress.mutex);
  SimStream& copier = machine_->stream(stream, call);
  machine_->wait_for_frees(lock, copier.context());
  machine_->progress.check_fault(call);
  if (size_bytes == 0) return;
  const int device = index(copier.context().device);
  if (machine_->memory.partly_read_only(device, target, size_bytes)) {
    throw driver_error(native_invalid_value, call,
                       fmt::format("gpu({}) may only read {:#x}", device, to_integer(target)));
  }
  const auto end = machine_->submit(copier, CopyWork{target, source, size_bytes}, call);
  if (!pageable || end == nullptr) return;
  machine_->progress.await(lock, end, never);
  machine_->progress.check_fault(call);
}

void SimDriver::fill(BoundStream stream, Address begin, std::byte value, std::uint64_t size_bytes) {
  constexpr auto call = "cuMemsetD8Async";
  const CallTime time(*machine_, machine_->costs.parameters().enqueue_us);
  require_device_range(machine_->memory, begin, size_bytes, call);
  MutexLock lock(machine_->progress.mutex);
  SimStream& filler = machine_->stream(stream, call);
  machine_->wait_for_frees(lock, filler.context());
  machine_->submit(filler, FillWork{begin, value, size_bytes}, call);
}

KernelHandle SimDriver::load_kernel(ContextHandle context, const Kernel& kernel) {
  constexpr auto call = "cuModuleLoadData";
  const CallTime time(*machine_, machine_->costs.parameters().load_kernel_us);
  MutexLock lock(machine_->progress.mutex);
  SimContext& owner = machine_->context(context, call);
  machine_->wait_for_frees(lock, owner);
  machine_->progress.check_fault(call);
  if (!kernel.host_body && !is_spin(kernel.entry)) {
    throw driver_error(native_invalid_ptx, call,
                       fmt::format("kernel \"{}\" has no host body to simulate", kernel.entry));
  }
  if (!owner.code.contains({kernel.entry, kernel.ptx})) {
    // New code comes onto a device at rest, also where another stream is the one that stands.
    machine_->progress.await(lock, owner.everything(), never);
    machine_->progress.check_fault(call);
    owner.code.emplace(kernel.entry, kernel.ptx);
  }
  const auto handle = machine_->next_handle<KernelHandle>();
  machine_->kernels[handle] = std::make_shared<LoadedKernel>(LoadedKernel{handle, context, kernel});
  return handle;
}

void SimDriver::unload_kernel(KernelHandle kernel) {
  const MutexLock lock(machine_->progress.mutex);
  if (machine_->kernels.erase(kernel) == 0) {
    throw driver_error(native_invalid_handle, "cuModuleUnload",
                       fmt::format("kernel {:#x}", static_cast<std::uint64_t>(kernel)));
  }
}

void SimDriver::launch(BoundStream stream, KernelHandle kernel, LaunchShape shape,
                       const KernelArguments& arguments) {
  constexpr auto call = "cuLaunchKernel";
  const CallTime time(*machine_, machine_->costs.parameters().launch_us);
  MutexLock lock(machine_->progress.mutex);
  SimStream& launcher = machine_->stream(stream, call);
  machine_->wait_for_frees(lock, launcher.context());
  machine_->progress.check_fault(call);
  const auto found = machine_->kernels.find(kernel);
  if (found == machine_->kernels.end() || found->second->context != launcher.context().handle) {
    throw driver_error(native_invalid_handle, call,
                       fmt::format("kernel {:#x} is none of the stream's context",
                                   static_cast<std::uint64_t>(kernel)));
  }
  if (!fits(shape)) throw driver_error(native_invalid_value, call, "grid or block");
  machine_->submit(launcher, KernelWork{found->second, shape, arguments}, call);
}

bool SimDriver::is_capturing(BoundStream stream) {
  const MutexLock lock(machine_->progress.mutex);
  const SimStream& asked = machine_->stream(stream, "cuStreamIsCapturing");
  const SimContext& owner = asked.context();
  if (&asked != owner.legacy) return asked.capture != nullptr;
  // The driver says so of the legacy stream where a blocking stream of its context captures.
  return std::any_of(owner.streams.begin(), owner.streams.end(), [](const SimStream* other) {
    return other->kind() == StreamKind::blocking && other->capture != nullptr;
  });
}

void SimDriver::begin_capture(BoundStream stream, CaptureMode mode) {
  constexpr auto call = "cuStreamBeginCapture";
  const MutexLock lock(machine_->progress.mutex);
  SimStream& origin = machine_->stream(stream, call);
  machine_->progress.check_fault(call);
  if (&origin == origin.context().legacy) {
    throw driver_error(native_stream_capture_unsupported, call, "the legacy stream");
  }
  if (origin.capture != nullptr)
    throw driver_error(native_illegal_state, call, "it captures already");
  origin.capture = std::make_shared<SimCapture>();
  origin.capture->origin = &origin;
  origin.capture->mode = mode;
}

GraphHandle SimDriver::end_capture(BoundStream stream) {
  constexpr auto call = "cuStreamEndCapture";
  const MutexLock lock(machine_->progress.mutex);
  SimStream& origin = machine_->stream(stream, call);
  const std::shared_ptr<SimCapture> capture = origin.capture;
  if (capture == nullptr || capture->origin != &origin) {
    throw driver_error(native_illegal_state, call, "the stream has begun no capture");
  }
  for (const auto& [handle, other] : machine_->streams) {
    if (other->capture == capture) other->capture.reset();
  }
  if (capture->invalid) throw driver_error(native_stream_capture_invalidated, call);
  if (!capture->unjoined.empty()) throw driver_error(native_stream_capture_unjoined, call);
  const auto handle = machine_->next_handle<GraphHandle>();
  machine_->graphs[handle] = std::make_shared<WorkList>(std::move(capture->nodes));
  return handle;
}

ExecGraphHandle SimDriver::instantiate(GraphHandle graph) {
  const CallTime time(*machine_, machine_->costs.parameters().load_kernel_us);
  const MutexLock lock(machine_->progress.mutex);
  const auto found = machine_->graphs.find(graph);
  if (found == machine_->graphs.end()) {
    throw driver_error(native_invalid_value, "cuGraphInstantiate", "no such graph");
  }
  const auto handle = machine_->next_handle<ExecGraphHandle>();
  machine_->exec_graphs[handle] = found->second;
  return handle;
}

void SimDriver::launch_graph(BoundStream stream, ExecGraphHandle graph) {
  constexpr auto call = "cuGraphLaunch";
  const CallTime time(*machine_, machine_->costs.parameters().launch_us);
  MutexLock lock(machine_->progress.mutex);
  SimStream& launcher = machine_->stream(stream, call);
  machine_->wait_for_frees(lock, launcher.context());
  const auto found = machine_->exec_graphs.find(graph);
  if (found == machine_->exec_graphs.end()) {
    throw driver_error(native_invalid_value, call, "no such executable graph");
  }
  machine_->submit(launcher, GraphWork{found->second}, call);
}

void SimDriver::destroy_graph(GraphHandle graph) {
  const MutexLock lock(machine_->progress.mutex);
  if (machine_->graphs.erase(graph) == 0) {
    throw driver_error(native_invalid_value, "cuGraphDestroy", "no such graph");
  }
}

void SimDriver::destroy_exec_graph(ExecGraphHandle graph) {
  const MutexLock lock(machine_->progress.mutex);
  if (machine_->exec_graphs.erase(graph) == 0) {
    throw driver_error(native_invalid_value, "cuGraphExecDestroy", "no such executable graph");
  }
}

}  // namespace vma
