#pragma once

#include "driver/cuda_api.hpp"
#include "driver/driver.hpp"

namespace vma {

/// The parameters of a CUfunction or a CUkernel, in order. Queries one after the other until the
/// driver reports no more. The two kinds share a type in many interfaces (`cuLaunchKernel` takes
/// both, and cudart passes it CUkernels), so a handle that `cuFuncGetParamInfo` refuses is passed
/// to `cuKernelGetParamInfo`. Throws: Error{unsupported} if the driver has no such call;
/// {invalid_argument} if neither call knows the handle; {driver_failure} if the answer is
/// impossible for a kernel.
KernelParameters cuda_parameters(const CudaApi& api, const void* function);

/// Whether the driver still reports the last of these parameters or, for an empty list, no
/// parameters. Only one call, because it is made for every launch and takes the driver's lock.
bool cuda_has_parameters(const CudaApi& api, const void* function,
                         const KernelParameters& parameters);

}  // namespace vma
