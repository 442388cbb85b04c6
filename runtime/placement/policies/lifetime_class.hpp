#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: what an allocation will be used for is what the last one was used for that followed the
/// same requests (`AllocationContexts`), and by that each has a class: passes over its bytes in a
/// second of its life. It gets HBM only if that leaves room for all that denser classes are likely
/// to ask for while it lives (`DemandGrowth`); else it begins in host memory, so that what lives
/// long and is used twice does not keep out what is worked on. Where HBM is short for them all the
/// same, chunks of sparser classes that have been idle longest leave it. Apart from that
/// `cost_benefit` decides, and takes the same parameters; it leaves the same room.
///
/// Without requests it is `cost_benefit`.
///
/// From: D. A. Barrett and B. G. Zorn, "Using Lifetime Predictors to Improve Memory Allocation
/// Performance", PLDI 1993; M. Maas et al., "Learning-based Memory Allocation for C++ Server
/// Workloads" (LLAMA), ASPLOS 2020: classes of lifetime, foretold from an allocation's context.
/// That context is a call stack there; here it is the order of requests, which X. Peng et al.
/// ("Capuchin", ASPLOS 2020) find to be regular in training.
PolicyKind lifetime_class_kind();

}  // namespace vma::inline v1
