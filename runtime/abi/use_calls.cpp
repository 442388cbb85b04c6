// The C calls that report how memory is used.
#include "abi/run_table.hpp"
#include "abi/boundary.hpp"

#include "runtime/runtime_parts.hpp"

#include <vma/vma.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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
                static_cast<int>(vma::UseKind::read_write) == VMART_USE_READ_WRITE &&
                static_cast<int>(vma::UseKind::unknown) == VMART_USE_UNKNOWN);
  constexpr auto none = static_cast<vma::UseKind>(VMART_USE_UNKNOWN + 1);
  return kind >= 0 && kind <= VMART_USE_UNKNOWN ? static_cast<vma::UseKind>(kind) : none;
}

vmart_use use_of(const vma::Use& use) {
  return {use.address, use.bytes, use.device.ordinal, static_cast<int32_t>(use.kind), use.passes};
}

constexpr std::size_t batch_count = 16;  // On the stack; enough for usual launches.

/// Writes the uses of a launch, which `find` fills into a span.
template <typename Find>
void find_uses(Find&& find, vmart_use* out, std::size_t max, std::size_t* count, const char* call) {
  require_argument(count, call, "count");
  if (max > 0) require_argument(out, call, "out");
  std::array<vma::Use, batch_count> few;
  *count = find(std::span<vma::Use>(few));
  const std::size_t wanted = std::min(*count, max);
  if (wanted <= few.size()) {
    std::transform(few.begin(), few.begin() + wanted, out, use_of);
    return;
  }
  std::vector<vma::Use> all(wanted);
  // Memory may have come or gone since the first search.
  *count = std::min(find(std::span<vma::Use>(all)), wanted);
  std::transform(all.begin(), all.begin() + *count, out, use_of);
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

vmart_status vmart_launch_uses(const void* function, const void* const* parameters, int gpu_ordinal,
                               vmart_use* out, size_t max, size_t* count) {
  return at_boundary([&] {
    constexpr const char* call = "vmart_launch_uses";
    require_argument(function, call, "function");
    const auto find = [&](std::span<vma::Use> found) {
      return vma::launch_uses(function, parameters, vma::gpu(gpu_ordinal), found);
    };
    find_uses(find, out, max, count, call);
  });
}

vmart_status vmart_launch_block_uses(const void* function, const void* block, size_t size_bytes,
                                     int gpu_ordinal, vmart_use* out, size_t max, size_t* count) {
  return at_boundary([&] {
    constexpr const char* call = "vmart_launch_block_uses";
    require_argument(function, call, "function");
    if (size_bytes > 0) require_argument(block, call, "block");
    const std::span given(static_cast<const std::byte*>(block), size_bytes);
    const auto find = [&](std::span<vma::Use> found) {
      return vma::launch_uses(function, given, vma::gpu(gpu_ordinal), found);
    };
    find_uses(find, out, max, count, call);
  });
}

vmart_status vmart_uses_wanted(int* out) {
  constexpr const char* call = "vmart_uses_wanted";
  return at_boundary([&] {
    require_argument(out, call, "out");
    const vma::RuntimeParts::Entry entry(parts_of(vma::runtime()), call);
    const auto is_limited = [&](vma::DeviceId gpu) {
      const vma::Place at = vma::gpu(index(gpu));
      return entry->memory.chunks().ledger().account(at).capacity_bytes != UINT64_MAX;
    };
    const bool policy_was_set =
        entry->scheduling && entry->scheduling->scheduler().policy_was_set();
    *out = policy_was_set || std::ranges::any_of(entry->memory.topology().devices(), is_limited);
  });
}

void vmart_record_uses(const vmart_use* uses, size_t count) {
  std::array<vma::Use, batch_count> batch;
  for (std::size_t done = 0; done < count; done += batch.size()) {
    const std::size_t size = std::min(count - done, batch.size());
    std::transform(uses + done, uses + done + size, batch.begin(), [](const vmart_use& use) {
      return vma::Use{use.address, use.size_bytes, vma::gpu(use.gpu), kind_of(use.kind),
                      use.passes};
    });
    vma::record_uses(std::span(batch).first(size));
  }
}

void vmart_unloads_will_be_told() {
  vma::KnownKernels::expect_told_unloads(true);
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
