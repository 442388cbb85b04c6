#include "driver/native_codes.hpp"

#include <fmt/format.h>

#include <string>

namespace vma {

ErrorKind kind_of(int native) noexcept {
  switch (native) {
    case native_out_of_memory: return ErrorKind::out_of_memory;
    case native_invalid_value:
    case native_invalid_handle:
    case native_not_found: return ErrorKind::invalid_argument;
    case native_not_permitted:
    case native_not_supported:
    case native_stream_capture_unsupported:
    case native_stream_capture_implicit:
    case native_captured_event: return ErrorKind::unsupported;
    case native_no_device:
    case native_stub_library:
    case native_system_not_ready: return ErrorKind::no_driver;
    case native_not_initialized:
    case native_deinitialized:
    case native_context_is_destroyed: return ErrorKind::driver_gone;
    default: return ErrorKind::driver_failure;
  }
}

std::string_view name_of(int native) noexcept {
  switch (native) {
    case native_success: return "CUDA_SUCCESS";
    case native_invalid_value: return "CUDA_ERROR_INVALID_VALUE";
    case native_out_of_memory: return "CUDA_ERROR_OUT_OF_MEMORY";
    case native_not_initialized: return "CUDA_ERROR_NOT_INITIALIZED";
    case native_deinitialized: return "CUDA_ERROR_DEINITIALIZED";
    case native_stub_library: return "CUDA_ERROR_STUB_LIBRARY";
    case native_no_device: return "CUDA_ERROR_NO_DEVICE";
    case native_invalid_device: return "CUDA_ERROR_INVALID_DEVICE";
    case native_invalid_context: return "CUDA_ERROR_INVALID_CONTEXT";
    case native_invalid_ptx: return "CUDA_ERROR_INVALID_PTX";
    case native_operating_system: return "CUDA_ERROR_OPERATING_SYSTEM";
    case native_invalid_handle: return "CUDA_ERROR_INVALID_HANDLE";
    case native_illegal_state: return "CUDA_ERROR_ILLEGAL_STATE";
    case native_not_found: return "CUDA_ERROR_NOT_FOUND";
    case native_not_ready: return "CUDA_ERROR_NOT_READY";
    case native_illegal_address: return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case native_launch_failed: return "CUDA_ERROR_LAUNCH_FAILED";
    case native_context_is_destroyed: return "CUDA_ERROR_CONTEXT_IS_DESTROYED";
    case native_not_permitted: return "CUDA_ERROR_NOT_PERMITTED";
    case native_not_supported: return "CUDA_ERROR_NOT_SUPPORTED";
    case native_system_not_ready: return "CUDA_ERROR_SYSTEM_NOT_READY";
    case native_stream_capture_unsupported: return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    case native_stream_capture_invalidated: return "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
    case native_stream_capture_unjoined: return "CUDA_ERROR_STREAM_CAPTURE_UNJOINED";
    case native_stream_capture_implicit: return "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT";
    case native_captured_event: return "CUDA_ERROR_CAPTURED_EVENT";
    case native_unknown: return "CUDA_ERROR_UNKNOWN";
    default: return "CUDA_ERROR_(unlisted)";
  }
}

Error driver_error(int native, std::string_view call, std::string_view detail) {
  std::string text = fmt::format("{} ({})", name_of(native), native);
  if (!detail.empty()) text += fmt::format(": {}", detail);
  return Error(kind_of(native), std::string(call), text, native);
}

}  // namespace vma
