#pragma once

/// Pools. <vma/vmart.h> includes this header, and its rules apply.

#include <vma/vmart.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Pools: blocks of any size, allocated and freed in the order of streams; see
 * docs/guide/pools.md. `vmart_free` and `vmart_free_async` free blocks, too. */

/// A handle of a pool. Thread-safe until it is released; several handles may name one pool.
typedef struct vmart_pool vmart_pool;

/// See `vma::PoolOptions`. All fields zero except `size_bytes` means the same as a null pointer.
typedef struct vmart_pool_options {
  size_t size_bytes; /**< Set it to sizeof(vmart_pool_options). */
  size_t release_threshold;
  size_t max_bytes; /**< 0: no limit. */
  size_t chunk_bytes;
  int32_t no_event_dependencies; /**< Here and below: nonzero means yes. */
  int32_t no_opportunistic;
  int32_t no_internal_dependencies;
  int32_t streams_last;
  int32_t exportable;
  int32_t reserved; /**< Zero. */
} vmart_pool_options;

/// See `vma::PoolStats`.
typedef struct vmart_pool_stats {
  size_t size_bytes; /**< Set it to sizeof(vmart_pool_stats); returns the filled size. */
  size_t reserved_bytes;
  size_t reserved_high_bytes;
  size_t used_bytes;
  size_t used_high_bytes;
  size_t pending_bytes;
} vmart_pool_stats;

/// `tag` names the pool's memory; null: "pool". `options` may be null. Release `*out` in any case;
/// the pool lives until it is destroyed.
VMART_EXPORT vmart_status vmart_pool_create(vmart_place at, const char* tag,
                                            const vmart_pool_options* options, vmart_pool** out);
VMART_EXPORT vmart_status vmart_pool_default(vmart_place at, vmart_pool** out);
/// The pool that `vmart_alloc_async` uses there.
VMART_EXPORT vmart_status vmart_pool_current(vmart_place at, vmart_pool** out);
VMART_EXPORT vmart_status vmart_pool_set_current(const vmart_pool* pool);
/// Allocates in the order of the stream. `alignment` 0 means 256. Blocks: only if the pool must
/// grow.
VMART_EXPORT vmart_status vmart_pool_allocate(const vmart_pool* pool, size_t size_bytes,
                                              size_t alignment, vmart_stream stream, void** out);
/// Frees in the order of the stream. Null does nothing. Does not block.
VMART_EXPORT vmart_status vmart_pool_deallocate(const vmart_pool* pool, void* pointer,
                                                vmart_stream stream);
/// `vmart_pool_allocate` of the current pool at the GPU of the stream.
VMART_EXPORT vmart_status vmart_alloc_async(size_t size_bytes, vmart_stream stream, void** out);
/// The work of `after` from now on comes after what is now enqueued on `before`.
VMART_EXPORT vmart_status vmart_pool_order(const vmart_pool* pool, vmart_stream after,
                                           vmart_stream before);
/// Gives empty memory back until the pool has no more than `keep_bytes`. `out_bytes` may be null.
/// Blocks: for a move of what it gives back, which gives up.
VMART_EXPORT vmart_status vmart_pool_trim(const vmart_pool* pool, size_t keep_bytes,
                                          size_t* out_bytes);
/// Waits for all work submitted earlier, so that all frees until now are complete.
VMART_EXPORT vmart_status vmart_pool_synchronize(const vmart_pool* pool);
VMART_EXPORT vmart_status vmart_pool_stats_get(const vmart_pool* pool, vmart_pool_stats* stats);
VMART_EXPORT vmart_status vmart_pool_reset_high_marks(const vmart_pool* pool);
VMART_EXPORT vmart_status vmart_pool_set_release_threshold(const vmart_pool* pool,
                                                           size_t size_bytes);
/// Sets the policies of reuse; other options are ignored.
VMART_EXPORT vmart_status vmart_pool_set_reuse(const vmart_pool* pool,
                                               const vmart_pool_options* options);
/// Call before you destroy a stream if blocks of pools with `streams_last` were freed on it.
VMART_EXPORT vmart_status vmart_pool_forget_stream(vmart_stream stream);
/// Moves all memory of the pool as one group, and allocates new memory at `to`. `options` may be
/// null.
VMART_EXPORT vmart_status vmart_pool_migrate(const vmart_pool* pool, vmart_place to,
                                             const vmart_migrate_options* options);
/// No more blocks can be allocated; the memory goes back when the last block is freed.
VMART_EXPORT vmart_status vmart_pool_destroy(const vmart_pool* pool);
/// Releases only the handle. Null does nothing.
VMART_EXPORT void vmart_pool_release(vmart_pool* pool);

/// Lets other processes import blocks of a pool until it is released. Thread-safe until then.
typedef struct vmart_exported_pool vmart_exported_pool;
/// Names a block for `vmart_import_pointer`; see `vma::ExportedPointer`. Send it in any way.
typedef struct vmart_exported_pointer {
  uint64_t segment;
  uint64_t offset;
  uint64_t bytes; /**< Of the block. */
} vmart_exported_pointer;

/// For a pool with `exportable`; see `vma::export_pool`. `path` may be null.
VMART_EXPORT vmart_status vmart_exported_pool_create(const vmart_pool* pool, const char* path,
                                                     vmart_exported_pool** out);
/// For `vmart_import_pointer`. Valid until the release; null for null.
VMART_EXPORT const char* vmart_exported_pool_path(const vmart_exported_pool* exported);
/// Exports a block that is allocated. Importers free it before it is freed here.
VMART_EXPORT vmart_status vmart_exported_pool_pointer(const vmart_exported_pool* exported,
                                                      void* block, vmart_exported_pointer* out);
/// Ends the export. Importers keep the memory that they have. Null does nothing.
VMART_EXPORT void vmart_exported_pool_release(vmart_exported_pool* exported);
/// As `vmart_import`, for a block. Free it once for each import, like a block of an own pool.
VMART_EXPORT vmart_status vmart_import_pointer(const char* path,
                                               const vmart_exported_pointer* pointer,
                                               int64_t limit_ns, void** out);

#ifdef __cplusplus
}
#endif
