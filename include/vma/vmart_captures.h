#pragma once

/// Captures beside live moves. The rules of <vma/vmart.h> apply.

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

#ifdef __cplusplus
}
#endif
