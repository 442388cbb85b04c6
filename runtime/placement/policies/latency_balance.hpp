#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: for each GPU and each other place that it uses, p is the part of its traffic on the two
/// that goes to its own HBM. Where the loaded latency of its HBM is lower than that of the other
/// place, p must grow, else shrink: a bisection between the p known to be too low and the one known
/// to be too high. Chunks move whose traffic fits the step to the middle (the first may go on
/// towards the far bound, but not past it), the ones with the most traffic first, within a budget
/// of bytes a route. Nothing moves while the latencies differ by less than `delta` of the HBM's.
/// Once the bounds are `epsilon` apart and the latencies still differ, the far bound is forgotten,
/// for the load has changed. Traffic leaves the HBM only for the best of the other places.
///
/// The loaded latency is the idle one / (1 - utilisation), a queue's; utilisation is the GPU's
/// demand on the place by its rate to there, or that of all GPUs by the best rate that any has,
/// whichever is more, and at most 0.99. Colloid measures it, by Little's law; here nobody counts
/// what is in flight.
///
/// From: M. Vuppalapati, R. Agarwal, "Tiered Memory Management: Access Latency is the Key!"
/// (Colloid), SOSP 2024.
PolicyKind latency_balance_kind();

}  // namespace vma::inline v1
