#include "driver/cuda_api.hpp"

#include "base/environment.hpp"
#include "driver/rm/channels.hpp"

#include <dlfcn.h>

#include <string_view>

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

// Checks that each row's type is that of the version it asks for, whatever the header's macros
// rename.
#define ROW(call, version)                                                  \
  static_assert(std::is_same_v<decltype(&::call), PFN_##call##_v##version>, \
                #call " is declared as another version than its row asks for");
VMART_CUDA_CALLS(ROW)
VMART_CUDA_OPTIONAL_CALLS(ROW)
#undef ROW

#define VMART_SAME_CODE(ours, theirs) static_assert(int{ours} == int{theirs})
VMART_SAME_CODE(native_success, CUDA_SUCCESS);
VMART_SAME_CODE(native_invalid_value, CUDA_ERROR_INVALID_VALUE);
VMART_SAME_CODE(native_out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
VMART_SAME_CODE(native_not_initialized, CUDA_ERROR_NOT_INITIALIZED);
VMART_SAME_CODE(native_deinitialized, CUDA_ERROR_DEINITIALIZED);
VMART_SAME_CODE(native_stub_library, CUDA_ERROR_STUB_LIBRARY);
VMART_SAME_CODE(native_no_device, CUDA_ERROR_NO_DEVICE);
VMART_SAME_CODE(native_invalid_device, CUDA_ERROR_INVALID_DEVICE);
VMART_SAME_CODE(native_invalid_context, CUDA_ERROR_INVALID_CONTEXT);
VMART_SAME_CODE(native_invalid_ptx, CUDA_ERROR_INVALID_PTX);
VMART_SAME_CODE(native_operating_system, CUDA_ERROR_OPERATING_SYSTEM);
VMART_SAME_CODE(native_invalid_handle, CUDA_ERROR_INVALID_HANDLE);
VMART_SAME_CODE(native_illegal_state, CUDA_ERROR_ILLEGAL_STATE);
VMART_SAME_CODE(native_not_found, CUDA_ERROR_NOT_FOUND);
VMART_SAME_CODE(native_not_ready, CUDA_ERROR_NOT_READY);
VMART_SAME_CODE(native_illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
VMART_SAME_CODE(native_launch_failed, CUDA_ERROR_LAUNCH_FAILED);
VMART_SAME_CODE(native_context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
VMART_SAME_CODE(native_not_permitted, CUDA_ERROR_NOT_PERMITTED);
VMART_SAME_CODE(native_not_supported, CUDA_ERROR_NOT_SUPPORTED);
VMART_SAME_CODE(native_system_not_ready, CUDA_ERROR_SYSTEM_NOT_READY);
VMART_SAME_CODE(native_stream_capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
VMART_SAME_CODE(native_stream_capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
VMART_SAME_CODE(native_stream_capture_unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
VMART_SAME_CODE(native_stream_capture_implicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
VMART_SAME_CODE(native_captured_event, CUDA_ERROR_CAPTURED_EVENT);
VMART_SAME_CODE(native_unknown, CUDA_ERROR_UNKNOWN);
#undef VMART_SAME_CODE

constexpr std::string_view simulate_hint = "set VMART_DRIVER=sim:h200x2 for a simulated machine";

using Resolve = PFN_cuGetProcAddress_v12000;

Resolve open_library(void*& library) {
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error(ErrorKind::no_driver, "dlopen",
                fmt::format("no NVIDIA driver was found ({}); {}", dlerror(), simulate_hint));
  }
  // Under `vmart run --way shim`, that is a library with hooks, which needs the driver's by this
  // name.
  void* const behind_shim = dlopen("libvmart-driver.so", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (behind_shim != nullptr) library = behind_shim;
  dlerror();  // The program would take it for its own.
  // The versioned symbol reports why a look-up failed. Drivers have it since 525.
  void* resolve = dlsym(library, "cuGetProcAddress_v2");
  if (resolve == nullptr) {
    throw Error(ErrorKind::unsupported, "dlsym",
                "the NVIDIA driver has no cuGetProcAddress_v2: driver 550 or newer is needed");
  }
  return reinterpret_cast<Resolve>(resolve);
}

/// Leaves null if the driver has no such call of that version.
template <typename Pointer>
void look_up(Resolve resolve, CudaCall<Pointer>& call) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  // Requests the legacy stream by name, because a macro determines what stream zero means.
  const CUresult result =
      resolve(call.name, &found, call.since, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);
  if (result != CUDA_SUCCESS || status != CU_GET_PROC_ADDRESS_SUCCESS) found = nullptr;
  call.function = reinterpret_cast<Pointer>(found);
}

template <typename Pointer>
void require(Resolve resolve, CudaCall<Pointer>& call) {
  look_up(resolve, call);
  if (call.function != nullptr) return;
  throw Error(ErrorKind::unsupported, call.name,
              "the NVIDIA driver lacks this call: driver 550 (CUDA 12.4) or newer is needed");
}

void check_version(CudaApi& api) {
  api.cuDriverGetVersion(&api.version);
  if (api.version >= oldest_cuda_version) return;
  throw Error(ErrorKind::unsupported, api.cuDriverGetVersion.name,
              fmt::format("the driver is for CUDA {}.{}; driver 550 (CUDA 12.4) or newer is needed",
                          api.version / 1000, api.version % 1000 / 10));
}

void initialise(const CudaApi& api) {
  const CUresult result = api.cuInit.attempt(0);
  if (result == CUDA_SUCCESS) return;
  const std::string_view why = result == CUDA_ERROR_STUB_LIBRARY
                                   ? "libcuda.so.1 is the toolkit's stub, not a driver"
                               : result == CUDA_ERROR_NO_DEVICE ? "the driver sees no GPU"
                                                                : "the driver did not start";
  throw Error(ErrorKind::no_driver, api.cuInit.name,
              fmt::format("{} ({}): {}; {}", name_of(result), int{result}, why, simulate_hint),
              result);
}

const CudaApi* load() {
  CudaApi api;
  const Resolve resolve = api.resolve = open_library(api.library);
  look_up(resolve, api.cuInit);
  look_up(resolve, api.cuDriverGetVersion);
  if (api.cuInit.function == nullptr || api.cuDriverGetVersion.function == nullptr) {
    throw Error(ErrorKind::unsupported, "cuGetProcAddress", "the driver does not know cuInit");
  }
  // Before it makes channels, if this is the first use of CUDA in the process.
  if (environment_text("VMART_STOP") != "gate") {
    rm::Channels::watch(reinterpret_cast<const void*>(api.cuInit.function));
  } else {
    rm::Channels::of_process().lose_track();
  }
  initialise(api);
  check_version(api);  // Checked before the rows, so that an old driver is reported as such.
#define ROW(call, version) require(resolve, api.call);
  VMART_CUDA_CALLS(ROW)
  VMART_CUDA_PINNED_CALLS(ROW)
#undef ROW
#define ROW(call, version) look_up(resolve, api.call);
  VMART_CUDA_OPTIONAL_CALLS(ROW)
#undef ROW
  return new CudaApi(api);
}

}  // namespace

const CudaApi& cuda_api() {
  static const CudaApi* const api = load();
  return *api;
}

std::vector<std::string> cuda_call_names() {
#define ROW(call, version) #call,
  return {VMART_CUDA_CALLS(ROW) VMART_CUDA_PINNED_CALLS(ROW) VMART_CUDA_OPTIONAL_CALLS(ROW)};
#undef ROW
}

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
