#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// `static`: first touch with spill. Memory is laid once and never moved.
///
/// Source: first-touch placement of Linux, whose allocator takes each page from the node of the CPU
/// that touches it and, when that is full, from the next one of that node's zone list, which is in
/// order of distance (`build_zonelists` in mm/page_alloc.c); and of MCM-GPU (Arunkumar et al., ISCA
/// 2017). The rule: each chunk, by itself, goes to the HBM of the device that asks; if it does not
/// fit there, to the fastest other place of that device where it does, as
/// `MachineCosts::by_speed` has it: the machine says whether that is a peer or the host. A small
/// chunk may thus still find room where a large one before it did not. Where no place has room the
/// default stands, and the allocation fails as it would without a policy.
PolicyKind static_spill_kind();

}  // namespace vma::inline v1
