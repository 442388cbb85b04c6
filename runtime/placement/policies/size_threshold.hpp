#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// `size_threshold`: compute data of a GPU belongs in HBM, caches belong in host memory, and the
/// size of the allocation tells them apart.
///
/// Source: `managed_alloc.cu`, an allocator of managed memory for PyTorch on GH200. It fetches an
/// allocation to the GPU that asks if `0 < size < 2 GiB` ("model weights", which "MUST be on GPU")
/// and leaves one of 2 GiB or more ("KV cache blocks") outside HBM, where the GPU can still reach
/// it, since fetching those "fills HBM and causes subsequent allocations to fail". How it is read:
/// - The size is that of the whole allocation, however many chunks it has; exactly `limit` is a
///   cache. Nothing else counts: no tag, no hint, no sum over allocations.
/// - Below: HBM of the device that asks. If that is full, spill in order of speed; the source
///   continues if its fetch fails ("pages will still be migrated on demand"). So with `on_demand`,
///   a chunk of such an allocation that a GPU uses while it is in host memory moves to that GPU's
///   HBM as soon as there is room. A peer's HBM is HBM: nothing moves between GPUs.
/// - From `limit` on: the host node that the device reaches fastest, then the others. If no host
///   has room, spill in order of speed, since failing is worse. It is not fetched when used: the
///   source lets the GPU read it over the link, and says that attention tolerates that.
/// - Under pressure on a GPU, cache data there goes back to a host, the longest unused first.
///   Compute data is not offered.
PolicyKind size_threshold_kind();

}  // namespace vma::inline v1
