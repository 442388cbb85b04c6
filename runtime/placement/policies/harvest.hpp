#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: `cost_benefit` decides, and takes the same parameters; but what it puts out of a GPU's HBM
/// goes to a lender: the first peer in the order of the victim's users' topology that has `reserve`
/// of its capacity free besides. The order is the topology's, so that where host memory is faster
/// than a peer, it is the host. What lies at a lender goes to host memory when it is put out again,
/// never to a second lender; and a lender that is pressed for room gives up first what it holds for
/// others.
///
/// From: S. Choi et al., "Memory Harvesting in Multi-GPU Systems with Hierarchical Unified Virtual
/// Memory" (HUVM, memHarvester), USENIX ATC 2022. Its copy at the host, made beside, is left out.
PolicyKind harvest_kind();

}  // namespace vma::inline v1
