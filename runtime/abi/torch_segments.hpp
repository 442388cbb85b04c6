#pragma once

#include <vma/location.hpp>
#include <vma/options.hpp>
#include <vma/vmart_torch.h>

#include <cstddef>
#include <optional>

namespace vma {

/// How the calling thread wants segments of PyTorch's pools.
struct TorchSegments {
  AllocOptions options;
  std::optional<Location> at;  ///< None: the GPU that PyTorch names.
  std::size_t large_bytes = 0;
  Location large_at;

  /// What `vmart_torch_segments_begin` set last on this thread, or the defaults.
  static const TorchSegments& current();

  /// Memory for a GPU. Throws and blocks: as `Runtime::alloc` with the GPU as reader.
  void* alloc(std::size_t size_bytes, int device) const;
};

}  // namespace vma
