#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// `bw_interleave`: stripes an allocation over several places in proportion to the bandwidth that
/// the device has to each, so that all of them are busy when it is read from end to end. Memory is
/// placed once and never moved.
///
/// Source: BW-AWARE page placement, Agarwal, Nellans, Stephenson, O'Connor, Keckler, "Page
/// Placement Strategies for GPUs within Heterogeneous Memory Systems", ASPLOS 2015: of memories
/// with bandwidths b_1 .. b_n, memory i gets the share b_i / (b_1 + ... + b_n) of the pages, and
/// when it is full they go to the others. There a page's place is drawn at random. Here it is a
/// weighted round robin that keeps remainders: each chunk credits every participating place with
/// its share of the chunk's bytes, goes to the place with the most credit (of equals the fastest)
/// and is debited there. Remainders carry over from one allocation of a device to its next, because
/// the paper's shares are those of all pages of a program and not of one array. A place without
/// room for a chunk is neither credited nor debited for it, so that it is owed nothing afterwards.
///
/// Participating places: the device's own HBM, the peers, and the hosts. All peers are behind one
/// port of the device, and all hosts behind another, so peers together count as the fastest of
/// them, and share that in proportion; so do hosts. A group whose share of the whole would be less
/// than `min_share` does not participate, nor do peers if `peers` is 0. If no participating place
/// has room, chunks go to the fastest place that has.
PolicyKind bw_interleave_kind();

}  // namespace vma::inline v1
