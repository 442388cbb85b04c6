// CudaDriver's chains: graphs of consecutive nodes that are created once and then only updated.
#include "driver/cuda_driver.hpp"
#include "driver/cuda_handles.hpp"
#include "driver/cuda_scope.hpp"

#include <array>
#include <tuple>

namespace vma {
namespace {

/// The parameters of one node, which point into this object. The driver copies what they point to.
class NodeParameters {
 public:
  NodeParameters(const ChainStep& step, CUcontext context) {
    for (const WordOperation& operation : step.words) {
      operations_.push_back(native_operation(operation));
    }
    words.ctx = context;
    words.count = static_cast<unsigned>(operations_.size());
    words.paramArray = operations_.data();
    if (!step.words.empty()) return;
    arguments_.assign(step.arguments.words().begin(), step.arguments.words().end());
    for (std::uint64_t& argument : arguments_) pointers_.push_back(&argument);
    const auto& [grid, block] = step.shape;
    kernel.func = kept<CudaKernel>(step.kernel)->function;
    std::tie(kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ) = std::tie(grid.x, grid.y, grid.z);
    std::tie(kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ) =
        std::tie(block.x, block.y, block.z);
    kernel.kernelParams = pointers_.data();
  }
  NodeParameters(const NodeParameters&) = delete;
  NodeParameters& operator=(const NodeParameters&) = delete;

  CUDA_BATCH_MEM_OP_NODE_PARAMS words{};
  CUDA_KERNEL_NODE_PARAMS kernel{};

 private:
  std::vector<CUstreamBatchMemOpParams> operations_;
  std::vector<std::uint64_t> arguments_;
  std::vector<void*> pointers_;
};

std::vector<WordOperation::Kind> kinds_of(const ChainStep& step) {
  std::vector<WordOperation::Kind> kinds;
  for (const WordOperation& operation : step.words) kinds.push_back(operation.kind);
  return kinds;
}

void require_kernel(const ChainStep& step, CUcontext context, const char* call) {
  if (!step.words.empty()) return;
  if (is_none(step.kernel) || kept<CudaKernel>(step.kernel)->context != context) {
    throw driver_error(native_invalid_handle, call,
                       fmt::format("kernel {:#x} does not belong to the context",
                                   static_cast<std::uint64_t>(step.kernel)));
  }
}

/// The driver would detect most of these errors too, but only after changing earlier nodes.
void require_fit(const CudaExecGraph& chain, std::span<const ChainStep> steps, const char* call) {
  if (chain.words.empty() || steps.size() != chain.words.size()) {
    throw driver_error(native_invalid_value, call,
                       fmt::format("{} steps for {} nodes", steps.size(), chain.words.size()));
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    require_kernel(steps[i], chain.context, call);
    if (kinds_of(steps[i]) != chain.words[i]) {
      throw driver_error(native_invalid_value, call, fmt::format("step {} has another type", i));
    }
  }
}

void add_node(const CudaApi& api, CudaExecGraph& chain, const ChainStep& step) {
  require_kernel(step, chain.context, api.cuGraphAddKernelNode.name);
  const NodeParameters parameters(step, chain.context);
  const CUgraphNode* before = chain.nodes.empty() ? nullptr : &chain.nodes.back();
  const std::size_t count = chain.nodes.empty() ? 0 : 1;
  CUgraphNode node = nullptr;
  if (step.words.empty()) {
    api.cuGraphAddKernelNode(&node, chain.graph, before, count, &parameters.kernel);
  } else {
    api.cuGraphAddBatchMemOpNode(&node, chain.graph, before, count, &parameters.words);
  }
  chain.nodes.push_back(node);
}

constexpr const char* stopper_ptx =
#include "driver/kernels/stop.ptx.inc"
    ;

constexpr std::uint64_t stopper_image[] = {
#include "driver/kernels/stop.image.inc"
};

bool stops_a_stream(std::span<const WordOperation> words) {
  return words.size() == 2 && words[0].kind == WordOperation::Kind::write &&
         words[1].kind == WordOperation::Kind::wait_until_at_least;
}

}  // namespace

KernelHandle CudaDriver::load_stopper(ContextHandle context) {
  const Kernel kernel{stopper_ptx, "vmart_stop", {}};
  const Kernel* const one = &kernel;
  return load_kernels(context, {&one, 1}, stopper_image).front();
}

void* CudaDriver::stopper(void* context) {
  const auto handle = handle_of<ContextHandle>(context);
  const std::uint64_t id = context_id(handle);
  {
    const MutexLock lock(mutex_);
    const auto known = stoppers_.find(id);
    if (known != stoppers_.end()) return known->second;
  }
  const KernelHandle loaded = load_stopper(handle);
  const MutexLock lock(mutex_);
  return stoppers_.emplace(id, kept<CudaKernel>(loaded)->function).first->second;
}

ExecGraphHandle CudaDriver::make_chain(ContextHandle context, std::span<const ChainStep> steps) {
  const CudaScope scope(api_, vma::native(context));
  if (steps.empty()) throw driver_error(native_invalid_value, api_.cuGraphCreate.name, "no steps");
  auto chain = std::make_unique<CudaExecGraph>();
  chain->context = vma::native(context);
  for (const ChainStep& step : steps) {
    require_kernel(step, chain->context, api_.cuGraphAddKernelNode.name);
    chain->words.push_back(kinds_of(step));
  }
  if (steps.size() == 1 && stops_a_stream(steps[0].words)) {
    chain->stopper = static_cast<CUfunction>(stopper(chain->context));
    chain->stop_words = steps[0].words;  // Its graph is created if it is ever launched.
  } else {
    make_graph(*chain, steps);
  }
  return handle_of<ExecGraphHandle>(chain.release());
}

void CudaDriver::make_graph(CudaExecGraph& chain, std::span<const ChainStep> steps) {
  api_.cuGraphCreate(&chain.graph, 0);
  try {
    for (const ChainStep& step : steps) add_node(api_, chain, step);
    api_.cuGraphInstantiateWithFlags(&chain.exec, chain.graph, 0);
    upload(chain);
  } catch (...) {
    if (chain.exec != nullptr) api_.cuGraphExecDestroy.attempt(chain.exec);
    api_.cuGraphDestroy.attempt(chain.graph);
    chain.exec = nullptr;
    chain.graph = nullptr;
    chain.nodes.clear();
    throw;
  }
}

void CudaDriver::launch_graph(BoundStream stream, ExecGraphHandle graph) {
  const CudaScope scope(api_, vma::native(stream.context));
  CudaExecGraph& launched = *kept<CudaExecGraph>(graph);
  if (launched.exec == nullptr) {
    ChainStep stop;
    stop.words = launched.stop_words;
    make_graph(launched, {&stop, 1});
  }
  api_.cuGraphLaunch(launched.exec, vma::native(stream.handle));
}

/// Without this, the first launch would upload the graph, just when streams are about to stop.
void CudaDriver::upload(const CudaExecGraph& chain) {
  const BoundStream stream =
      create_stream(handle_of<ContextHandle>(chain.context), StreamKind::non_blocking);
  try {
    api_.cuGraphUpload(chain.exec, vma::native(stream.handle));
    wait_stream(stream, never);
  } catch (...) {
    api_.cuStreamDestroy.attempt(vma::native(stream.handle));
    throw;
  }
  destroy_stream(stream);
}

void CudaDriver::update_chain(ExecGraphHandle handle, std::span<const ChainStep> steps) {
  CudaExecGraph& chain = *kept<CudaExecGraph>(handle);
  const CudaScope scope(api_, chain.context);
  require_fit(chain, steps, api_.cuGraphExecBatchMemOpNodeSetParams.name);
  for (std::size_t i = 0; i < chain.nodes.size(); ++i) {
    const NodeParameters parameters(steps[i], chain.context);
    if (steps[i].words.empty()) {
      api_.cuGraphExecKernelNodeSetParams(chain.exec, chain.nodes[i], &parameters.kernel);
    } else {
      api_.cuGraphExecBatchMemOpNodeSetParams(chain.exec, chain.nodes[i], &parameters.words);
    }
  }
}

void CudaDriver::stop(BoundStream stream, ExecGraphHandle chain,
                      std::span<const WordOperation> words) {
  const CudaExecGraph& stop = *kept<CudaExecGraph>(chain);
  if (stop.stopper == nullptr || !stops_a_stream(words)) {
    throw driver_error(native_invalid_value, api_.cuLaunchKernelEx.name,
                       "a stop writes one word and waits for another");
  }
  const CudaScope scope(api_, vma::native(stream.context));
  std::array<std::uint64_t, 4> values{};
  std::array<void*, 4> arguments{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const WordOperation& operation = words[i / 2];
    values[i] = i % 2 == 0 ? to_integer(operation.word) : operation.value;
    arguments[i] = &values[i];
  }
  // Gives the kernel precedence over blocks of other streams' kernels that wait for a
  // multiprocessor.
  int least = 0, greatest = 0;
  api_.cuCtxGetStreamPriorityRange(&least, &greatest);
  CUlaunchAttribute priority{};
  priority.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  priority.value.priority = greatest;
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = vma::native(stream.handle);
  config.attrs = &priority;
  config.numAttrs = 1;
  api_.cuLaunchKernelEx(&config, stop.stopper, arguments.data(), nullptr);
}

}  // namespace vma
