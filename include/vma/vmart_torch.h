#pragma once

/// PyTorch's memory. The rules of <vma/vmart.h> apply.

#include <vma/vmart.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Functions for torch.cuda.memory.CUDAPluggableAllocator. The first two are for a
 * torch.cuda.MemPool, the `async` ones for change_current_allocator. See
 * docs/guide/integrations.md. */

/// Returns null for zero bytes and if there is no room, which the pool turns into
/// torch.OutOfMemoryError; `vmart_last_error` has the reason. Legal during capture. Blocks: for
/// memory.
VMART_EXPORT void* vmart_torch_malloc(size_t size_bytes, int device, vmart_stream stream);
/// Blocks: like the cudaFree that it replaces, for the work submitted earlier on any stream. Does
/// not end captures. While it knows of a capture (on `stream`, on an attached stream, or on a
/// blocking one) it neither waits nor frees: memory that `stream` itself captures may be used by
/// its graph and is kept for good; other memory is freed by a later call.
VMART_EXPORT void vmart_torch_free(void* pointer, size_t size_bytes, int device,
                                   vmart_stream stream);
/// A block of the default pool of the GPU, for one tensor. Null as above.
/// While the stream captures, the block belongs to the graph.
VMART_EXPORT void* vmart_torch_malloc_async(size_t size_bytes, int device, vmart_stream stream);
/// Frees it after the work that is now enqueued on `stream`, a stream of that GPU. While that
/// captures, a block from before the capture is kept, and freed in that order by a later call. Does
/// not block.
VMART_EXPORT void vmart_torch_free_async(void* pointer, size_t size_bytes, int device,
                                         vmart_stream stream);

/* --- Where the segments lie that `vmart_torch_malloc` returns. PyTorch passes an allocator nothing
 * but a size, a GPU and a stream, so these options belong to the thread. `vmart.torch.memory` in
 * Python uses them. */

/// All fields zero except `size_bytes`: as without options. A nonzero value that this library does
/// not know is VMART_INVALID_ARGUMENT.
typedef struct vmart_torch_segment_options {
  size_t size_bytes;  /**< Set it to sizeof(vmart_torch_segment_options). */
  const char* tag;    /**< Null: "torch". Copied. */
  size_t chunk_bytes; /**< The unit that moves; 0: chosen by size. At most 256 MiB; SIZE_MAX: as
                         large as the machine can give cheaply (`vma::largest_chunks`). */
  size_t large_bytes; /**< Segments from this size on lie at `large_at`; 0: none. */
  vmart_place at;     /**< If `elsewhere` is nonzero; otherwise the GPU that PyTorch names. */
  vmart_place large_at;
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
