#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: `cost_benefit` decides, or `harvest` if requested, with the same parameters; but a chunk
/// that comes from host memory to HBM leaves a clean copy behind, and a chunk evicted to host
/// memory goes to the host that has its copy, so that nothing is copied. Only chunks declared
/// read-only keep one; a chunk that was seen written to is not expected to have one.
///
/// From: L. Xiang et al., "NOMAD: Non-Exclusive Memory Tiering via Transactional Page Migration",
/// OSDI 2024: its shadow pages. Its copies of pages that merely happen not to be written to are
/// left out.
PolicyKind clean_copy_kind();

}  // namespace vma::inline v1
