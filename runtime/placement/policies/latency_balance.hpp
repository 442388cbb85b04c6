#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: for each GPU and each other place that it uses, p is the share of its traffic to the two
/// that goes to its own HBM. If the loaded latency of its HBM is lower than that of the other
/// place, p must grow, otherwise shrink: a bisection between the p known to be too low and the one
/// known to be too high. Chunks whose traffic fits the step to the middle move (the first may go on
/// towards the far bound, but not past it), those with the most traffic first, within a budget of
/// bytes for each route. Nothing moves while the latencies differ by less than `delta` of the
/// HBM's. Once the bounds are `epsilon` apart and the latencies still differ, the far bound is
/// forgotten, since the load has changed. Traffic leaves the HBM only for the best of the other
/// places.
///
/// The loaded latency is the idle one / (1 - utilisation), as for a queue; utilisation is the GPU's
/// demand on the place divided by its rate to there, or that of all GPUs divided by the best rate
/// of any, whichever is more, and at most 0.99. Colloid measures it by Little's law; here requests
/// in flight are not counted.
///
/// From: M. Vuppalapati, R. Agarwal, "Tiered Memory Management: Access Latency is the Key!"
/// (Colloid), SOSP 2024.
PolicyKind latency_balance_kind();

}  // namespace vma::inline v1
