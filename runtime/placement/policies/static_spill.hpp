#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// `static`: first touch with spill. Memory is placed once and never moved.
///
/// Source: first-touch placement of Linux, whose allocator takes each page from the node of the CPU
/// that touches it and, when that is full, from the next one of that node's zone list, which is in
/// order of distance (`build_zonelists` in mm/page_alloc.c); and of MCM-GPU (Arunkumar et al., ISCA
/// 2017). The rule: each chunk, by itself, goes to the HBM of the device that asks; if it does not
/// fit there, to the fastest other place of that device where it does, by `MachineCosts::by_speed`:
/// the machine determines whether that is a peer or the host. So a small chunk may still find room
/// where a larger one before it did not. If no place has room the default applies, and the
/// allocation fails as it would without a policy.
PolicyKind static_spill_kind();

}  // namespace vma::inline v1
