#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: an allocation is expected to be used like the last one that followed the same requests
/// (`AllocationContexts`). From that follows its class: passes over its bytes per second of its
/// life. It gets HBM only if that leaves room for all that denser classes are likely to request
/// during its life (`DemandGrowth`); otherwise it begins in host memory, so that long-lived, rarely
/// used memory does not keep out the working set. If HBM still runs short, the chunks of sparser
/// classes that have been idle longest leave it. Apart from that `cost_benefit` decides, with the
/// same parameters; it leaves the same room.
///
/// Without requests it behaves as `cost_benefit`.
///
/// From: D. A. Barrett and B. G. Zorn, "Using Lifetime Predictors to Improve Memory Allocation
/// Performance", PLDI 1993; M. Maas et al., "Learning-based Memory Allocation for C++ Server
/// Workloads" (LLAMA), ASPLOS 2020: classes of lifetime, predicted from an allocation's context.
/// That context is a call stack there; here it is the order of requests, which X. Peng et al.
/// ("Capuchin", ASPLOS 2020) find to be regular in training.
PolicyKind lifetime_class_kind();

}  // namespace vma::inline v1
