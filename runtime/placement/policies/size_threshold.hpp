#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// `size_threshold`: what a GPU computes with lies in HBM, what is a cache lies in host memory, and
/// the size of the allocation tells them apart.
///
/// Source: `managed_alloc.cu`, an allocator of managed memory for PyTorch on GH200. It fetches
/// an allocation to the GPU that asks if `0 < size < 2 GiB` ("model weights", which "MUST be on
/// GPU") and leaves one of 2 GiB and more ("KV cache blocks") where a GPU reaches it from HBM's
/// outside, since fetching those "fills HBM and causes subsequent allocations to fail". How it is
/// read:
/// - The size is that of the whole allocation, however many chunks it has; exactly `limit` is a
/// cache.
///   Nothing else counts: no tag, no hint, no sum over allocations.
/// - Below: HBM of the device that asks. If that is full, spill in order of speed; the source
///   carries on where its fetch fails ("pages will still be migrated on demand"). So with
///   `on_demand` a chunk of such an allocation that a GPU uses while it lies in host memory goes to
///   that GPU's HBM as soon as there is room. A peer's HBM is HBM: nothing moves between GPUs.
/// - From `limit` on: the host node that the device reaches fastest, then the others. If no host
/// has
///   room, spill in order of speed, since to fail is worse. It is not fetched when used: the source
///   lets the GPU read it over the link, and says that attention stands that.
/// - Under pressure on a GPU, cache data that lies there goes back to a host, the longest unused
///   first. Compute data is not offered.
PolicyKind size_threshold_kind();

}  // namespace vma::inline v1
