#pragma once

/// Captures, contexts and calls that enqueue, beside moves. The rules of <vma/vmart.h> apply.

#include <vma/vmart.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Around a call with which a blocking stream begins to capture, or may join a capture: no stop is
/// enqueued meanwhile. A stop in the legacy stream that is enqueued at that moment would end the
/// capture. Stops do not wait long for the call: a move tries again later. The thread calls nothing
/// else of vmart in between. Blocks: while stops are enqueued; the first call also while another
/// thread waits for a context, for two seconds at most (`vmart_captures_will_be_told`).
VMART_EXPORT void vmart_no_stops_begin(void);
VMART_EXPORT void vmart_no_stops_end(void);

/// From now on the program calls `vmart_no_stops_begin` before every call with which any stream
/// begins to capture. Until the first one the runtime waits for contexts in the usual way, which
/// would end captures. `any_yet`: nonzero if a capture may have begun before. Does not open the
/// runtime.
VMART_EXPORT void vmart_captures_will_be_told(int any_yet);

/// The program has created a context, or is about to destroy it: moves that hold all work hold its
/// work, too. Primary contexts are found without it. Neither opens the runtime.
VMART_EXPORT void vmart_context_created(void* context);
VMART_EXPORT void vmart_context_destroyed(void* context);

/// From now on a move that holds all work calls `begin(limit_ns, data)` just before, and
/// `end(data)` some microseconds later. After `begin` no thread of the program enqueues, and none
/// is inside a call that does; it returns null then, and otherwise, within the limit, why that
/// cannot be: then the move tries again, or ends with that reason. `begin` and `end` must not call
/// vmart. Set once in a process. Does not open the runtime.
VMART_EXPORT void vmart_hold_enqueues(const char* (*begin)(int64_t limit_ns, void* data),
                                      void (*end)(void* data), void* data);

#ifdef __cplusplus
}
#endif
