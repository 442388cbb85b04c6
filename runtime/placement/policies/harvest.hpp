#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: `cost_benefit` decides, with the same parameters; but a chunk evicted from a GPU's HBM
/// goes to a lender: the first peer in the order of the victim's users' topology that still has
/// `reserve` of its capacity free. The order is the topology's, so if host memory is faster than a
/// peer, it goes to the host. A chunk at a lender goes to host memory when it is evicted again,
/// never to a second lender; and a lender under pressure first gives up what it holds for others.
///
/// From: S. Choi et al., "Memory Harvesting in Multi-GPU Systems with Hierarchical Unified Virtual
/// Memory" (HUVM, memHarvester), USENIX ATC 2022. Its additional copy at the host is left out.
PolicyKind harvest_kind();

}  // namespace vma::inline v1
