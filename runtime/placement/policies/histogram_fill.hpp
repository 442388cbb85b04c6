#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: each chunk has a count of the passes over it, which is halved every `cooling`. For each
/// GPU a histogram has the bytes of the chunks that it uses most, in 16 bins by the logarithm of
/// the count. From the hottest bin down, as many bins as fit the GPU's HBM less `reserve` are hot;
/// the threshold follows from the capacity, nothing has to be tuned. Hot chunks are brought in;
/// cold ones, the coldest first, are put out as far as those need room, or when less than `low` is
/// free. While the hot ones fill less than `warm_below` of the HBM, the bin below the threshold is
/// warm: it stays in HBM, so that chunks near the threshold do not go to and fro. Chunks of that
/// bin elsewhere may fill what is free, but nothing is put out for them. What a move costs is not
/// asked.
///
/// A count is read as that of the last cooling: divided by 1 + the part of the period that has
/// passed since, so that steady use gives a steady bin. One look at all chunks every `period`.
///
/// From: T. Lee et al., "MEMTIS: Efficient Memory Tiering with Dynamic Page Classification and Page
/// Size Determination", SOSP 2023. It has one histogram, for one fast tier.
PolicyKind histogram_fill_kind();

}  // namespace vma::inline v1
