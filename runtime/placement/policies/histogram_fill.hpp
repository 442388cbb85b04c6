#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: each chunk has a count of the passes over it, which is halved every `cooling`. For each
/// GPU a histogram has the bytes of the chunks that it uses most, in 16 bins by the logarithm of
/// the count. From the hottest bin down, as many bins as fit the GPU's HBM minus `reserve` are hot;
/// the threshold follows from the capacity, so nothing has to be tuned. Hot chunks are brought in;
/// cold ones, the coldest first, are evicted when hot ones need room, or when less than `low` is
/// free. While the hot ones fill less than `warm_below` of the HBM, the bin below the threshold is
/// warm: it stays in HBM, so that chunks near the threshold do not move to and fro. Chunks of that
/// bin at other places may fill free room, but nothing is evicted for them. The cost of a move is
/// not considered.
///
/// A count is read as of the last cooling: divided by 1 + the share of the period that has passed
/// since, so that steady use gives a steady bin. All chunks are examined once every `period`.
///
/// From: T. Lee et al., "MEMTIS: Efficient Memory Tiering with Dynamic Page Classification and Page
/// Size Determination", SOSP 2023. It has one histogram, for one fast tier.
PolicyKind histogram_fill_kind();

}  // namespace vma::inline v1
