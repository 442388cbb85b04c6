#pragma once

/// Captures beside live moves. The rules of <vma/vmart.h> apply.

#include <vma/vmart.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Around a call with which a blocking stream begins to capture, or may join a capture: no stop is
/// enqueued meanwhile. A stop in the legacy stream that is enqueued at that moment would end the
/// capture. Stops do not wait long for the call: a move tries again later. The thread calls nothing
/// else of vmart in between. Blocks: while stops are enqueued.
VMART_EXPORT void vmart_no_stops_begin(void);
VMART_EXPORT void vmart_no_stops_end(void);

#ifdef __cplusplus
}
#endif
