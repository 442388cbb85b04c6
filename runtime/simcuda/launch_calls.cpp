// Launches of kernels.
#include "simcuda/graphs.hpp"
#include "simcuda/library.hpp"
#include "simcuda/modules.hpp"

#include "base/mutex.hpp"

#include <map>
#include <vector>

namespace vma {
namespace {

/// For each context, the chain that its stops resemble.
struct StopChains {
  Mutex mutex;
  std::map<ContextHandle, ExecGraphHandle> of_context VMART_GUARDED_BY(mutex);
};
StopChains& stop_chains() {
  static StopChains& all = *new StopChains;
  return all;
}

ExecGraphHandle stop_chain(ContextHandle context, const std::vector<WordOperation>& words) {
  StopChains& all = stop_chains();
  const MutexLock lock(all.mutex);
  const auto found = all.of_context.find(context);
  if (found != all.of_context.end()) return found->second;
  ChainStep step;
  step.words = words;
  const ExecGraphHandle made = sim().make_chain(context, {&step, 1});
  all.of_context.emplace(context, made);
  return made;
}

/// Enqueues a kernel; that which stops a stream becomes a stop.
void launch(BoundStream stream, const Function& function, LaunchShape shape,
            const KernelArguments& arguments) {
  if (!function.stops) {
    sim().launch(stream, function.handle, shape, arguments);
    return note_captured(stream, function, shape, arguments);
  }
  const std::vector<WordOperation> words{
      {WordOperation::Kind::write, arguments.at<Address>(0), arguments.at<std::uint64_t>(1)},
      {WordOperation::Kind::wait_until_at_least, arguments.at<Address>(2),
       arguments.at<std::uint64_t>(3)}};
  sim().stop(stream, stop_chain(function.context, words), words);
}

}  // namespace

SIMCUDA_STREAM_CALL(cuLaunchKernel, _ptsz,
                    (CUfunction function, unsigned int grid_x, unsigned int grid_y,
                     unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                     unsigned int block_z, unsigned int, CUstream stream, void** pointers,
                     void** extra),
                    (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, 0, stream,
                     pointers, extra)) {
  const auto known = function_of(function);
  launch(stream_of(stream), *known, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}},
         arguments_of(*known, pointers, extra));
}

// Attributes such as priorities have no effect in the simulator.
SIMCUDA_STREAM_CALL(cuLaunchKernelEx, _ptsz,
                    (const CUlaunchConfig* config, CUfunction function, void** pointers,
                     void** extra),
                    (config, function, pointers, extra)) {
  const CUlaunchConfig& how = *required(config);
  const auto known = function_of(function);
  launch(
      stream_of(how.hStream), *known,
      {{how.gridDimX, how.gridDimY, how.gridDimZ}, {how.blockDimX, how.blockDimY, how.blockDimZ}},
      arguments_of(*known, pointers, extra));
}

SIMCUDA_STREAM_CALL(cuLaunchCooperativeKernel, _ptsz,
                    (CUfunction function, unsigned int grid_x, unsigned int grid_y,
                     unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                     unsigned int block_z, unsigned int, CUstream stream, void** pointers),
                    (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, 0, stream,
                     pointers)) {
  const auto known = function_of(function);
  launch(stream_of(stream), *known, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}},
         arguments_of(*known, pointers, nullptr));
}

}  // namespace vma
