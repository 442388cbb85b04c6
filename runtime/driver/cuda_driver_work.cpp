#include "driver/cuda_driver.hpp"
#include "driver/cuda_handles.hpp"
#include "driver/cuda_parameters.hpp"
#include "driver/cuda_scope.hpp"

#include <array>

namespace vma {
namespace {

CUstreamCaptureMode native_mode(CaptureMode mode) {
  switch (mode) {
    case CaptureMode::global: return CU_STREAM_CAPTURE_MODE_GLOBAL;
    case CaptureMode::thread_local_mode: return CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    case CaptureMode::relaxed: return CU_STREAM_CAPTURE_MODE_RELAXED;
  }
  return CU_STREAM_CAPTURE_MODE_GLOBAL;
}

/// Throws: Error with the messages of the driver's compiler.
CUmodule load_module(const CudaApi& api, const Kernel& kernel) {
  std::array<char, 4096> log{};
  std::array<CUjit_option, 2> options{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  // The size is passed in place of the pointer.
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(std::uintptr_t{log.size() - 1})};
  CUmodule module = nullptr;
  const CUresult result = api.cuModuleLoadDataEx.attempt(&module, kernel.ptx.c_str(),
                                                         static_cast<unsigned>(options.size()),
                                                         options.data(), values.data());
  if (result == CUDA_SUCCESS) return module;
  throw driver_error(result, api.cuModuleLoadDataEx.name,
                     fmt::format("kernel {}: {}", kernel.entry, log.data()));
}

}  // namespace

void CudaDriver::batch(BoundStream stream, std::span<const WordOperation> operations) {
  const CudaScope scope(api_, vma::native(stream.context));
  std::vector<CUstreamBatchMemOpParams> params;
  params.reserve(operations.size());
  for (const WordOperation& operation : operations) params.push_back(native_operation(operation));
  api_.cuStreamBatchMemOp(vma::native(stream.handle), static_cast<unsigned>(params.size()),
                          params.data(), 0);
}

void CudaDriver::copy(BoundStream stream, Address target, Address source,
                      std::uint64_t size_bytes) {
  const CudaScope scope(api_, vma::native(stream.context));
  api_.cuMemcpyAsync(vma::native(target), vma::native(source), size_bytes,
                     vma::native(stream.handle));
}

void CudaDriver::fill(BoundStream stream, Address begin, std::byte value,
                      std::uint64_t size_bytes) {
  const CudaScope scope(api_, vma::native(stream.context));
  api_.cuMemsetD8Async(vma::native(begin), std::to_integer<unsigned char>(value), size_bytes,
                       vma::native(stream.handle));
}

KernelHandle CudaDriver::load_kernel(ContextHandle context, const Kernel& kernel) {
  const CudaScope scope(api_, vma::native(context));
  auto loaded = std::make_unique<CudaKernel>();
  loaded->context = vma::native(context);
  loaded->module = load_module(api_, kernel);
  try {
    api_.cuModuleGetFunction(&loaded->function, loaded->module, kernel.entry.c_str());
    // Otherwise, a lazily loading driver defers the work to the first launch.
    api_.cuFuncLoad(loaded->function);
  } catch (...) {
    api_.cuModuleUnload.attempt(loaded->module);
    throw;
  }
  return handle_of<KernelHandle>(loaded.release());
}

void CudaDriver::unload_kernel(KernelHandle kernel) {
  CudaKernel* loaded = kept<CudaKernel>(kernel);
  const CudaScope scope(api_, loaded->context);
  api_.cuModuleUnload(loaded->module);
  delete loaded;  // Deleted last, because a handle must stay valid if its release fails.
}

void CudaDriver::launch(BoundStream stream, KernelHandle kernel, LaunchShape shape,
                        const KernelArguments& arguments) {
  const CudaScope scope(api_, vma::native(stream.context));
  std::vector<std::uint64_t> words(arguments.words().begin(), arguments.words().end());
  std::vector<void*> pointers;
  pointers.reserve(words.size());
  for (std::uint64_t& word : words) pointers.push_back(&word);
  const auto& [grid, block] = shape;
  api_.cuLaunchKernel(kept<CudaKernel>(kernel)->function, grid.x, grid.y, grid.z, block.x, block.y,
                      block.z, 0, vma::native(stream.handle), pointers.data(), nullptr);
}

KernelParameters CudaDriver::kernel_parameters(const void* function) {
  const CudaScope scope(api_);  // The query may load a function that has not been launched yet.
  return cuda_parameters(api_, function);
}

bool CudaDriver::has_parameters(const void* function, const KernelParameters& parameters) {
  return cuda_has_parameters(api_, function, parameters);  // Loads nothing, so it needs no scope.
}

void CudaDriver::begin_capture(BoundStream stream, CaptureMode mode) {
  const CudaScope scope(api_, vma::native(stream.context));
  api_.cuStreamBeginCapture(vma::native(stream.handle), native_mode(mode));
}

GraphHandle CudaDriver::end_capture(BoundStream stream) {
  const CudaScope scope(api_, vma::native(stream.context));
  auto captured = std::make_unique<CudaGraph>();
  captured->context = vma::native(stream.context);
  api_.cuStreamEndCapture(vma::native(stream.handle), &captured->graph);
  return handle_of<GraphHandle>(captured.release());
}

ExecGraphHandle CudaDriver::instantiate(GraphHandle graph) {
  const CudaGraph& captured = *kept<CudaGraph>(graph);
  const CudaScope scope(api_, captured.context);
  auto ready = std::make_unique<CudaExecGraph>();
  ready->context = captured.context;
  api_.cuGraphInstantiateWithFlags(&ready->exec, captured.graph, 0);
  return handle_of<ExecGraphHandle>(ready.release());
}

void CudaDriver::launch_graph(BoundStream stream, ExecGraphHandle graph) {
  const CudaScope scope(api_, vma::native(stream.context));
  api_.cuGraphLaunch(kept<CudaExecGraph>(graph)->exec, vma::native(stream.handle));
}

void CudaDriver::destroy_graph(GraphHandle graph) {
  CudaGraph* captured = kept<CudaGraph>(graph);
  const CudaScope scope(api_, captured->context);
  api_.cuGraphDestroy(captured->graph);
  delete captured;
}

void CudaDriver::destroy_exec_graph(ExecGraphHandle graph) {
  CudaExecGraph* ready = kept<CudaExecGraph>(graph);
  const CudaScope scope(api_, ready->context);
  if (ready->graph != nullptr) api_.cuGraphDestroy(ready->graph);
  // If the next call fails, the handle stays valid although its graph is gone.
  ready->graph = nullptr;
  api_.cuGraphExecDestroy(ready->exec);
  delete ready;
}

}  // namespace vma
