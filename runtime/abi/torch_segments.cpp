#include "abi/torch_segments.hpp"

#include "abi/boundary.hpp"
#include "abi/migration_values.hpp"

#include "base/process_exit.hpp"

#include <vma/vma.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t segment_options_bytes_min = 56;

/// Of this thread, the innermost last.
std::vector<TorchSegments>& begun() {
  thread_local std::vector<TorchSegments> stack;
  return stack;
}

TorchSegments segments_of(const vmart_torch_segment_options* given) {
  constexpr const char* call = "vmart_torch_segments_begin";
  const auto known = known_part(given, segment_options_bytes_min,
                                offsetof(vmart_torch_segment_options, reserved), call);
  TorchSegments segments = TorchSegments();
  segments.options.tag = known.tag != nullptr ? known.tag : "torch";
  segments.options.chunk_bytes = known.chunk_bytes;
  if (known.elsewhere != 0) segments.at = to_location(known.at, call);
  segments.large_bytes = known.large_bytes;
  if (known.large_bytes != 0) segments.large_at = to_location(known.large_at, call);
  return segments;
}

}  // namespace

const TorchSegments& TorchSegments::current() {
  static Immortal<TorchSegments> defaults([] {
    TorchSegments made;
    made.options.tag = "torch";
    return made;
  }());
  return begun().empty() ? *defaults : begun().back();
}

void* TorchSegments::alloc(std::size_t size_bytes, int device) const {
  const Location own = gpu(device);
  const Location where =
      large_bytes != 0 && size_bytes >= large_bytes ? large_at : at.value_or(own);
  if (where == own) return runtime().alloc(size_bytes, own, options);
  return runtime().alloc(size_bytes, where, std::span(&own, 1), options);
}

}  // namespace vma

vmart_status vmart_torch_segments_begin(const vmart_torch_segment_options* options) {
  return vma::at_boundary([&] { vma::begun().push_back(vma::segments_of(options)); });
}

vmart_status vmart_torch_segments_end() {
  return vma::at_boundary([] {
    if (vma::begun().empty()) {
      throw vma::Error(vma::ErrorKind::invalid_argument, "vmart_torch_segments_end",
                       "this thread has not called vmart_torch_segments_begin, or has ended it");
    }
    vma::begun().pop_back();
  });
}
