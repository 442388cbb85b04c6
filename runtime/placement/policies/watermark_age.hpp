#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// `watermark_age`: each GPU keeps some HBM free by demoting cold chunks, and promotes chunks that
/// are used twice.
///
/// Sources: TPP, Maruf et al., ASPLOS 2023: demotion instead of eviction, a demotion watermark
/// above that of allocations so that these find room, promotion at the second touch. DAMOS of Linux
/// (mm/damon): coldness from frequency and age, a quota of bytes per time, a high and a low
/// watermark. AutoTiering, Kim et al., ATC 2021: if nothing is free, only colder chunks make room.
///
/// - Warmth of a chunk: the logarithm to base 2 of its passes per second (bytes used per second by
///   the long average, divided by its bytes) at its last use, minus one for each `half_life` since
///   then; in steps of a quarter. So age and frequency balance each other, and time does not change
///   the order of unused chunks. A chunk that was never used counts as passed over once at its
///   creation.
/// - Demotion, each tick: a GPU with less than `low` of its HBM free demotes, coldest first, until
///   `high` is free; chunks on their way out count as gone. Each goes to the next place in the
///   order of speed of that GPU that has room and that its users reach; a peer must keep its own
///   `high`.
/// - Promotion, at a use: the second touch of a chunk within `second_touch` sends it to the GPU
///   that uses it most, unless it is in HBM whose own GPU uses it at least half as much. Uses less
///   than `apart` after a touch are part of it. `low` stays free there; if it would not, chunks
///   that are colder by at least `colder` (in powers of two) are evicted for it, all that are
///   needed or none.
/// - Demotions and promotions share `quota`, a token bucket; an empty bucket stops both until it
///   fills. Under pressure the coldest leave, whatever the quota.
PolicyKind watermark_age_kind();

}  // namespace vma::inline v1
