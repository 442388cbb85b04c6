// The C calls that report how memory is used.
#include "abi/boundary.hpp"

#include <vma/vma.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>

using vma::at_boundary;
using vma::require_argument;

namespace {

// The size of the struct's first version, as in migration_calls.cpp.
constexpr std::size_t hint_bytes_min = 40;
static_assert(offsetof(vmart_hint, passes) + sizeof(double) == hint_bytes_min);

/// Throws: Error{invalid_argument} for an invalid size, and for unknown members.
vma::Hint hint_of(const vmart_hint& given, const char* call) {
  if (given.size_bytes < hint_bytes_min || given.size_bytes > vma::struct_bytes_max) {
    throw vma::Error(vma::ErrorKind::invalid_argument, call,
                     fmt::format("hint->size_bytes is {}; it must be at least {}", given.size_bytes,
                                 hint_bytes_min));
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(&given);
  const auto unknown = std::span(bytes, given.size_bytes).subspan(sizeof given);
  if (std::ranges::any_of(unknown, [](std::byte byte) { return byte != std::byte{0}; })) {
    throw vma::Error(vma::ErrorKind::invalid_argument, call,
                     "the hint contains a value that this version does not know");
  }
  vma::Hint hint;
  hint.device = vma::gpu(given.gpu);
  if (given.next_use_ns >= 0) hint.next_use = std::chrono::nanoseconds(given.next_use_ns);
  if (given.until_ns != 0) hint.until = std::chrono::nanoseconds(given.until_ns);
  if (given.passes != 0) hint.passes = given.passes;
  hint.read_mostly = given.read_mostly != 0;
  return hint;
}

/// An invalid kind stays invalid; it is counted where uses are aggregated.
vma::UseKind kind_of(int32_t kind) {
  static_assert(static_cast<int>(vma::UseKind::write) == VMART_USE_WRITE &&
                static_cast<int>(vma::UseKind::read_write) == VMART_USE_READ_WRITE);
  constexpr auto none = static_cast<vma::UseKind>(VMART_USE_READ_WRITE + 1);
  return kind >= 0 && kind <= VMART_USE_READ_WRITE ? static_cast<vma::UseKind>(kind) : none;
}

}  // namespace

void vmart_record_use(const void* address, size_t size_bytes, int gpu_ordinal, int32_t kind) {
  vma::record_use(address, size_bytes, vma::gpu(gpu_ordinal), kind_of(kind));
}

vmart_status vmart_record_launch(const void* function, const void* const* parameters,
                                 int gpu_ordinal) {
  return at_boundary([&] {
    require_argument(function, "vmart_record_launch", "function");
    vma::record_launch(function, parameters, vma::gpu(gpu_ordinal));
  });
}

vmart_status vmart_record_launch_block(const void* function, const void* block, size_t size_bytes,
                                       int gpu_ordinal) {
  return at_boundary([&] {
    constexpr const char* call = "vmart_record_launch_block";
    require_argument(function, call, "function");
    if (size_bytes > 0) require_argument(block, call, "block");
    vma::record_launch(function, {static_cast<const std::byte*>(block), size_bytes},
                       vma::gpu(gpu_ordinal));
  });
}

vmart_status vmart_forget_kernels(void) {
  return at_boundary([] { vma::forget_kernels(); });
}

vmart_status vmart_advise(const void* address, size_t size_bytes, const vmart_hint* hint) {
  constexpr const char* call = "vmart_advise";
  return at_boundary([&] {
    require_argument(address, call, "address");
    require_argument(hint, call, "hint");
    vma::advise(address, size_bytes, hint_of(*hint, call));
  });
}
