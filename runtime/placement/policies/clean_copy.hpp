#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: `cost_benefit` decides, or `harvest` if asked, and takes the same parameters; but a chunk
/// that comes from host memory to HBM leaves a clean copy behind, and what is put out to host
/// memory goes to the host that has its copy, with no copy to be made. Only chunks that are
/// declared read-only keep one; of one that was seen written to none is expected.
///
/// From: L. Xiang et al., "NOMAD: Non-Exclusive Memory Tiering via Transactional Page Migration",
/// OSDI 2024: its shadow pages. Its copies of pages that were not written to by chance are left
/// out.
PolicyKind clean_copy_kind();

}  // namespace vma::inline v1
