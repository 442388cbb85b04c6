#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// `two_touch`: a chunk goes to the GPU that used it most in two consecutive windows.
///
/// Source: NUMA balancing of Linux 6.3, `should_numa_migrate_memory` in kernel/sched/fair.c. There
/// a page is sampled by one fault per scan, here uses are counted; a scan period becomes a window,
/// a fault's node becomes the GPU that used the chunk most in the window (of equals the one where
/// it is, then the last window's, then the lowest number). At the end of a window, for each chunk
/// that was used in it:
/// 1. Two-stage filter: this window's top GPU is also that of the last window in which the chunk
///    was used. (As with faults, windows without use do not interrupt: the last one is remembered.)
/// 2. Private, no other GPU used it in either window: move.
/// 3. The target is much more active: over both windows it used more than 3 times the bytes
///    (`ACTIVE_NODE_FRACTION`) that the GPU where the chunk is did: move. This always holds for
///    host memory.
/// 4. Otherwise it is shared, and memory follows the load with a hysteresis of 3/4 (`ratio`): move
///    if cpu(target) / mem(target) * ratio > cpu(source) / mem(source), where cpu(g) is GPU g's
///    demand on all memory, and mem(g) the demand of all GPUs on g's HBM, in bytes per second.
/// Moves go to HBM with room, as the kernel's do (`migrate_balanced_pgdat`). Not adopted: that
/// first faults of a young task need no second one (programs here do not say that they are young),
/// and the adaptive scan period. The rule does not weigh costs; a move's value says what it is
/// expected to save.
PolicyKind two_touch_kind();

}  // namespace vma::inline v1
