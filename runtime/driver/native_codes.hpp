#pragma once

#include <vma/error.hpp>

#include <string_view>

namespace vma {

/// The CUresult values that the runtime uses by name, for layers that must not include cuda.h.
/// `cuda_api.cpp` checks each against the header; the simulator throws the same codes with the same
/// call names.
enum NativeCode : int {
  native_success = 0,
  native_invalid_value = 1,
  native_out_of_memory = 2,
  native_not_initialized = 3,
  native_deinitialized = 4,
  native_stub_library = 34,
  native_no_device = 100,
  native_invalid_device = 101,
  native_invalid_context = 201,
  native_invalid_ptx = 218,
  native_operating_system = 304,
  native_invalid_handle = 400,
  native_illegal_state = 401,
  native_not_found = 500,
  native_not_ready = 600,
  native_illegal_address = 700,
  native_launch_failed = 719,
  native_context_is_destroyed = 709,
  native_not_permitted = 800,
  native_not_supported = 801,
  native_system_not_ready = 802,
  native_stream_capture_unsupported = 900,
  native_stream_capture_invalidated = 901,
  native_stream_capture_unjoined = 904,
  native_stream_capture_implicit = 906,
  native_captured_event = 907,
  native_unknown = 999,
};

/// The kind of error that a driver code maps to. Total: an unlisted code is `driver_failure`.
ErrorKind kind_of(int native) noexcept;
/// Such as "CUDA_ERROR_OUT_OF_MEMORY"; "CUDA_ERROR_(n)" for a code that is not listed above.
std::string_view name_of(int native) noexcept;
/// The error that every driver throws. `call` is the CUDA name, `detail` the refused values.
Error driver_error(int native, std::string_view call, std::string_view detail = {});

}  // namespace vma
