#include "driver/cuda_parameters.hpp"

namespace vma {
namespace {

constexpr std::size_t launch_bytes_max = 32764;  // That a launch takes, of all parameters.

}  // namespace

std::vector<ParameterInfo> cuda_parameters(const CudaApi& api, const void* function) {
  // The type is the driver's own pointer, which nobody writes through.
  const auto native = static_cast<CUfunction>(const_cast<void*>(function));
  const auto& ask = api.cuFuncGetParamInfo;
  std::vector<ParameterInfo> parameters;
  std::size_t end = 0;
  for (;;) {
    ParameterInfo info;
    const CUresult result =
        ask.attempt(native, parameters.size(), &info.offset_bytes, &info.size_bytes);
    if (result == CUDA_ERROR_INVALID_VALUE) return parameters;  // One past the last.
    const auto refuse = [&](int code, const std::string& reason) {
      throw driver_error(code, ask.name,
                         fmt::format("parameter {} of {}{}", parameters.size(), function, reason));
    };
    if (result != CUDA_SUCCESS) refuse(result, "");
    const bool behind = info.offset_bytes >= end && info.offset_bytes < launch_bytes_max;
    if (!behind || info.size_bytes == 0 || info.size_bytes > launch_bytes_max - info.offset_bytes) {
      refuse(native_unknown,
             fmt::format(": {} bytes at offset {}", info.size_bytes, info.offset_bytes));
    }
    end = info.offset_bytes + info.size_bytes;
    parameters.push_back(info);
  }
}

}  // namespace vma
