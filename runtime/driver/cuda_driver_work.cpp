#include "base/process_exit.hpp"
#include "driver/cuda_driver.hpp"
#include "driver/cuda_handles.hpp"
#include "driver/cuda_api.hpp"
#include "driver/cuda_scope.hpp"

#include <array>
#include <memory>
#include <utility>

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
CUmodule compile_module(const CudaApi& api, const Kernel& kernel) {
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

/// An image spares the compiler, which takes tens of milliseconds.
CUmodule load_module(const CudaApi& api, const Kernel& kernel,
                     std::span<const std::uint64_t> image) {
  constexpr int oldest_for_images = 13000;  // Made by CUDA 13; older drivers cannot read them.
  CUmodule module = nullptr;
  if (!image.empty() && api.version >= oldest_for_images &&
      api.cuModuleLoadDataEx.attempt(&module, image.data(), 0, nullptr, nullptr) == CUDA_SUCCESS) {
    return module;
  }
  return compile_module(api, kernel);  // Also reports better what is wrong.
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
  const Kernel* const one = &kernel;
  return load_kernels(context, {&one, 1}, {}).front();
}

std::vector<KernelHandle> CudaDriver::load_kernels(ContextHandle context,
                                                   std::span<const Kernel* const> kernels,
                                                   std::span<const std::uint64_t> image) {
  const CudaScope scope(api_, vma::native(context));
  const auto code = std::make_shared<CudaModule>();
  code->module = load_module(api_, *kernels.front(), image);
  ProcessExit::come_first();  // The driver may have loaded its compiler, which is used to the end.
  std::vector<std::unique_ptr<CudaKernel>> loaded;
  try {
    for (const Kernel* const kernel : kernels) {
      loaded.push_back(std::make_unique<CudaKernel>());
      CudaKernel& made = *loaded.back();
      made.context = vma::native(context);
      made.code = code;
      api_.cuModuleGetFunction(&made.function, code->module, kernel->entry.c_str());
      // Otherwise, a lazily loading driver defers the work to the first launch.
      api_.cuFuncLoad(made.function);
    }
    std::vector<KernelHandle> handles;
    handles.reserve(loaded.size());
    for (auto& kernel : loaded) handles.push_back(handle_of<KernelHandle>(kernel.release()));
    code->kernels = static_cast<int>(handles.size());
    return handles;
  } catch (...) {
    api_.cuModuleUnload.attempt(code->module);
    throw;
  }
}

void CudaDriver::unload_kernel(KernelHandle kernel) {
  CudaKernel* loaded = kept<CudaKernel>(kernel);
  const CudaScope scope(api_, loaded->context);
  CudaModule& code = *loaded->code;
  if (--code.kernels == 0) {
    try {
      api_.cuModuleUnload(code.module);
    } catch (...) {
      ++code.kernels;
      throw;
    }
  }
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

void CudaDriver::at_graph_end(BoundStream stream, std::function<void()> ended) {
  const CudaScope scope(api_, vma::native(stream.context));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = nullptr;
  api_.cuStreamGetCaptureInfo(vma::native(stream.handle), &status, nullptr, &graph, nullptr,
                              nullptr);
  if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    throw driver_error(native_illegal_state, api_.cuStreamGetCaptureInfo.name,
                       "the stream is not capturing");
  }
  auto kept = std::make_unique<std::function<void()>>(std::move(ended));
  const auto run = [](void* function) {
    const std::unique_ptr<std::function<void()>> owned(
        static_cast<std::function<void()>*>(function));
    if (*owned) (*owned)();
  };
  CUuserObject object = nullptr;
  api_.cuUserObjectCreate(&object, kept.get(), run, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  std::function<void()>* const held = kept.release();  // `run` deletes it.
  try {
    api_.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  } catch (...) {
    *held = nullptr;  // The caller keeps what it has, so `ended` must not run.
    api_.cuUserObjectRelease.attempt(object, 1);
    throw;
  }
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
  if (ready->exec != nullptr) api_.cuGraphExecDestroy(ready->exec);
  delete ready;
}

}  // namespace vma
