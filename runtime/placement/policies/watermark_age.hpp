#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// `watermark_age`: each GPU keeps some HBM free by sending away what is cold, and takes back what
/// is used twice.
///
/// Sources: TPP, Maruf et al., ASPLOS 2023: demotion instead of eviction, a demotion watermark
/// above that of allocations so that these find room, promotion at the second touch. DAMOS of Linux
/// (mm/damon): coldness from frequency and age, a quota of bytes a time, a high and a low
/// watermark. AutoTiering, Kim et al., ATC 2021: where nothing is free, only what is colder makes
/// room.
///
/// - Warmth of a chunk: the logarithm to base 2 of its passes a second (bytes used a second by the
/// long
///   average, by its bytes) when it was last used, less one for each `half_life` since then;
///   in steps of a quarter. So age and frequency weigh against each other, and time changes
///   nothing in the order of what is not used. What was never used counts as passed over once at
///   its birth.
/// - Demotion, each tick: a GPU with less than `low` of its HBM free demotes, coldest first, until
///   `high` is; what is on its way out counts as gone. Each goes to the next place in the order of
///   speed of that GPU that has room and that its users reach; a peer must keep its own `high`.
/// - Promotion, at a use: the second touch of a chunk within `second_touch` sends it to the GPU
/// that uses it most,
///   unless it lies in HBM whose own GPU uses it at least half as much. Uses less than `apart`
///   after a touch are part of it. `low` stays free there; if it would not, chunks that are colder
///   by at least `colder` (in powers of two) leave for it, all that is needed or none.
/// - Demotions and promotions share `quota`, a token bucket; one that is empty stops both until it
///   fills. Under pressure the coldest leave, whatever the quota.
PolicyKind watermark_age_kind();

}  // namespace vma::inline v1
