#pragma once

/// Uses of memory as data, for work that is enqueued again and again: what a launch uses is found
/// once and recorded each time, as for the kernels of a CUDA graph. The rules of <vma/vmart.h>
/// apply.

#include <vma/vmart.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A GPU uses a range of memory, `passes` times.
typedef struct vmart_use {
  const void* address;
  size_t size_bytes;
  int32_t gpu;  /**< A CUDA ordinal. */
  int32_t kind; /**< As of `vmart_record_use`. */
  float passes;
} vmart_use;

/// What `vmart_record_launch` would record. Writes the first `max` uses to `out`, and to `count`
/// how many there are; none without an open runtime. Records nothing.
VMART_EXPORT vmart_status vmart_launch_uses(const void* function, const void* const* parameters,
                                            int gpu_ordinal, vmart_use* out, size_t max,
                                            size_t* count);
/// The same for `vmart_record_launch_block`.
VMART_EXPORT vmart_status vmart_launch_block_uses(const void* function, const void* block,
                                                  size_t size_bytes, int gpu_ordinal,
                                                  vmart_use* out, size_t max, size_t* count);
/// Whether the placement of the open runtime decides by uses because of what was set while the
/// program runs: a policy, or the capacity of a GPU. Does not block.
VMART_EXPORT vmart_status vmart_uses_wanted(int* out);
/// Records all of them, as `vmart_record_use` does for one.
VMART_EXPORT void vmart_record_uses(const vmart_use* uses, size_t count);

#ifdef __cplusplus
}
#endif
