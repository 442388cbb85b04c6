#pragma once

/// Where PyTorch's memory lies: options for the segments that `vmart_torch_malloc` returns. PyTorch
/// passes an allocator nothing but a size, a GPU and a stream, so these belong to the thread.
/// `vmart.torch.memory` in Python uses them. The rules of <vma/vmart.h> apply.

#include <vma/vmart.h>

#ifdef __cplusplus
extern "C" {
#endif

/// All fields zero except `size_bytes`: as without options. A nonzero value that this library does
/// not know is VMART_INVALID_ARGUMENT.
typedef struct vmart_torch_segment_options {
  size_t size_bytes;  /**< Set it to sizeof(vmart_torch_segment_options). */
  const char* tag;    /**< Null: "torch". Copied. */
  size_t chunk_bytes; /**< The unit that moves; 0: chosen by size. At most 256 MiB. */
  size_t large_bytes; /**< Segments from this size on lie at `large_at`; 0: none. */
  vmart_location at;  /**< If `elsewhere` is nonzero; otherwise the GPU that PyTorch names. */
  vmart_location large_at;
  int32_t elsewhere;
  int32_t reserved; /**< Zero. */
} vmart_torch_segment_options;

/// From now on, segments that the calling thread requests have these options. Calls nest: each
/// needs a `vmart_torch_segments_end` on the same thread, which restores the options before it.
/// Memory lies where the GPU that PyTorch names can reach it, or the request fails. Legal during
/// capture. Opens no runtime.
VMART_EXPORT vmart_status vmart_torch_segments_begin(const vmart_torch_segment_options* options);
/// VMART_INVALID_ARGUMENT without a begin on this thread.
VMART_EXPORT vmart_status vmart_torch_segments_end(void);

#ifdef __cplusplus
}
#endif
