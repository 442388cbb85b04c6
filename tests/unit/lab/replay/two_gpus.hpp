#pragma once

#include <vma/place.hpp>
#include <vma/snapshot.hpp>

namespace vma {

constexpr PlaceId gpu_0{0}, gpu_1{1}, host_0{2};

/// Two GPUs and a host node, with round rates: HBM 4000 bytes per second, 400 between the GPUs, 50
/// to and from the host. With `kind` pcie the GPUs share their links to the host, and read each
/// other's memory at 40.
struct TwoGpus {
  explicit TwoGpus(LinkKind kind = LinkKind::nvlink);

  PeerLinks peers;
  MachineCosts costs{2, 3};
};

}  // namespace vma
