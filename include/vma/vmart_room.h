#pragma once

/// How much room the runtime has at a place. The rules of <vma/vmart.h> apply.

#include <vma/vmart.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The most that the runtime may allocate at a place; UINT64_MAX if nothing limits it. Does not
/// block.
VMART_EXPORT vmart_status vmart_capacity(vmart_location at, uint64_t* out);
/// Bytes of all allocations at a place, mapped or not, plus memory cached after frees and moves,
/// plus tables of the runtime's own. Excludes what the driver needs for its contexts. Does not
/// block.
VMART_EXPORT vmart_status vmart_held_bytes(vmart_location at, uint64_t* out);
/// Moves at least `bytes` away from a place, if so much may move and has room elsewhere, the
/// coldest first, and releases it to the driver with what is cached. `out_bytes`, which may be
/// null, is what has moved. VMART_UNSUPPORTED without a scheduler. Blocks: for the moves.
VMART_EXPORT vmart_status vmart_make_room(vmart_location at, uint64_t bytes, uint64_t* out_bytes);

#ifdef __cplusplus
}
#endif
