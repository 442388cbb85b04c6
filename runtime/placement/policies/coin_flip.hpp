#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: a remote use whose penalty is p seconds brings the chunk to the GPU that made it with
/// probability 1 - exp(-p / (2 x cost of the move)): for small p that is p / (2 x cost). The only
/// state is how far the chunk has come towards a threshold, which is drawn for each chunk and move
/// from the exponential distribution of mean 2 x cost; that is the same as a flip at each use. Uses
/// by other GPUs subtract nothing. The draw depends on the seed, the chunk's number and how often
/// it was moved, not on the order of calls.
///
/// From: J. Westbrook, "Randomized Algorithms for Multiprocessor Page Migration", SIAM J. Comput.
/// 23(5), 1994: 3-competitive in any metric against an adaptive adversary.
PolicyKind coin_flip_kind();

}  // namespace vma::inline v1
