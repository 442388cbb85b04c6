#include "driver/cuda_parameters.hpp"

namespace vma {
namespace {

constexpr std::size_t launch_bytes_max = 32764;  // Limit for the parameters of a launch.

/// Makes one of the two calls. Returns `native_not_supported` if the driver lacks it.
int ask(const CudaApi& api, const void* function, bool of_library, std::size_t index,
        ParameterInfo& info) {
  // Uses the driver's own pointer types; nothing is written through them.
  void* const handle = const_cast<void*>(function);
  const auto by = [&](const auto& call, auto native) -> int {
    if (call.function == nullptr) return native_not_supported;
    return call.attempt(native, index, &info.offset_bytes, &info.size_bytes);
  };
  return of_library ? by(api.cuKernelGetParamInfo, static_cast<CUkernel>(handle))
                    : by(api.cuFuncGetParamInfo, static_cast<CUfunction>(handle));
}

[[noreturn]] void refuse(const CudaApi& api, bool of_library, int code, std::size_t index,
                         const void* function, const std::string& reason = {}) {
  throw driver_error(code, of_library ? api.cuKernelGetParamInfo.name : api.cuFuncGetParamInfo.name,
                     fmt::format("parameter {} of {}{}", index, function, reason));
}

}  // namespace

KernelParameters cuda_parameters(const CudaApi& api, const void* function) {
  KernelParameters parameters;
  std::size_t end = 0;
  for (;;) {
    const std::size_t index = parameters.list.size();
    ParameterInfo info;
    int result = ask(api, function, parameters.of_library, index, info);
    // For a handle of the other kind, the driver refuses the handle (driver 580). For a known
    // function without parameters it refuses only the index, so this does not try the other call.
    if (index == 0 && result != native_success && result != native_invalid_value) {
      const int other = ask(api, function, true, index, info);
      if (other == native_success || other == native_invalid_value) {
        parameters.of_library = true;
        result = other;
      }
    }
    // The index is one past the last parameter.
    if (result == native_invalid_value) return parameters;
    if (result != native_success) refuse(api, parameters.of_library, result, index, function);
    const bool behind = info.offset_bytes >= end && info.offset_bytes < launch_bytes_max;
    if (!behind || info.size_bytes == 0 || info.size_bytes > launch_bytes_max - info.offset_bytes) {
      refuse(api, parameters.of_library, native_unknown, index, function,
             fmt::format(": {} bytes at offset {}", info.size_bytes, info.offset_bytes));
    }
    end = info.offset_bytes + info.size_bytes;
    parameters.list.push_back(info);
  }
}

bool cuda_has_parameters(const CudaApi& api, const void* function,
                         const KernelParameters& parameters) {
  const std::size_t count = parameters.list.size();
  ParameterInfo info;
  if (count == 0) return ask(api, function, parameters.of_library, 0, info) == native_invalid_value;
  return ask(api, function, parameters.of_library, count - 1, info) == native_success &&
         info == parameters.list.back();
}

}  // namespace vma
