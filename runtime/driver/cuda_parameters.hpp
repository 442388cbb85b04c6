#pragma once

#include "driver/cuda_api.hpp"
#include "driver/driver.hpp"

#include <vector>

namespace vma {

/// The parameters of a CUfunction, in order. Asks for one after the other until the driver knows no
/// more. Throws: Error{unsupported} by a driver that has no such call; {driver_failure} for an
/// answer that no kernel can have.
std::vector<ParameterInfo> cuda_parameters(const CudaApi& api, const void* function);

}  // namespace vma
