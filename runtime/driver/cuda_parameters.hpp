#pragma once

#include "driver/cuda_api.hpp"
#include "driver/driver.hpp"

namespace vma {

/// The parameters of a CUfunction or a CUkernel, in order. Asks for one after the other until the
/// driver knows no more. The two kinds share a type in many interfaces (`cuLaunchKernel` takes
/// both, and cudart hands it CUkernels), so a handle that `cuFuncGetParamInfo` refuses is asked for
/// by `cuKernelGetParamInfo`. Throws: Error{unsupported} by a driver that has no such call;
/// {invalid_argument} where neither call knows the handle; {driver_failure} for an answer that no
/// kernel can have.
KernelParameters cuda_parameters(const CudaApi& api, const void* function);

/// Whether the last of the parameters is what the driver says now; of none, that there is none. One
/// call: it is made for launches, and takes the driver's lock.
bool cuda_has_parameters(const CudaApi& api, const void* function,
                         const KernelParameters& parameters);

}  // namespace vma
