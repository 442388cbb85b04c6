// Launches of kernels.
#include "support/cuda/library.hpp"
#include "support/cuda/modules.hpp"

namespace vma {

SIM_CUDA_STREAM_CALL(cuLaunchKernel, _ptsz,
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
SIM_CUDA_STREAM_CALL(cuLaunchKernelEx, _ptsz,
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

SIM_CUDA_STREAM_CALL(cuLaunchCooperativeKernel, _ptsz,
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
