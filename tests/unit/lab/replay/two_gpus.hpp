#pragma once

#include <vma/peer_links.hpp>
#include <vma/snapshot.hpp>

namespace vma {

constexpr PlaceId gpu_0{0}, gpu_1{1}, host_0{2};

/// Two GPUs and a host node, in round figures: HBM 4000 bytes a second, 400 between the GPUs, 50 to
/// and from the host. With `kind` pcie the GPUs share their ways to the host, and 40 is what one
/// gets of the other.
struct TwoGpus {
  explicit TwoGpus(LinkKind kind = LinkKind::nvlink);

  PeerLinks peers;
  MachineCosts costs{2, 3};
};

}  // namespace vma
