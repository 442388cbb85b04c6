#pragma once

/// Memory for addresses that the caller reserves by itself, as with CUDA's cuMemAddressReserve; for
/// libraries that stand between a program and the driver, such as that of `vmart run`. The rules of
/// <vma/vmart.h> apply.

#include <vma/vmart.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Memory without addresses of its own, in place of a handle of cuMemCreate. Thread-safe until it
/// is released.
typedef struct vmart_backing vmart_backing;

/// All fields zero except `size_bytes` means the same as a null pointer. A nonzero value that this
/// library does not know is VMART_INVALID_ARGUMENT.
typedef struct vmart_backing_options {
  size_t size_bytes;  /**< Set it to sizeof(vmart_backing_options). */
  const char* tag;    /**< Of the allocation, while it is mapped. Copied; null: none. */
  int32_t descriptor; /**< Here and below: nonzero means that its memory can leave the process so,
                           if the driver allows; see `vma::Exportable`. */
  int32_t fabric;
  int32_t rdma;
  int32_t make_room; /**< Other memory may make way for it. Otherwise there must be room now. */
  const char* site;  /**< As `vmart_alloc_options.site`, while it is mapped. */
} vmart_backing_options;

/// `size_bytes` is a multiple of the allocation granularity (2 MiB on GPUs). The contents are
/// undefined. Blocks: for memory.
VMART_EXPORT vmart_status vmart_backing_create(size_t size_bytes, vmart_location at,
                                               const vmart_backing_options* options,
                                               vmart_backing** out);
/// From now on it is an allocation that starts at `address`, with its bytes, for all GPUs that
/// reach it, like memory of `vmart_alloc`; but it ends by `vmart_backing_unmap`. The caller has
/// reserved the addresses and mapped nothing there. VMART_INVALID_ARGUMENT if it is mapped already.
VMART_EXPORT vmart_status vmart_backing_map(vmart_backing* backing, void* address);
/// Ends that; the bytes stay. Blocks: until a running move of it has ended. Does not wait for work,
/// which must not use the memory any more. VMART_PINNED while a pin of it exists.
VMART_EXPORT vmart_status vmart_backing_unmap(vmart_backing* backing);
/// Something else knows the memory by its handle from now on, such as one of
/// cuMemRetainAllocationHandle: it never moves again, and is not reused. VMART_BUSY unless it lies
/// where it was created. VMART_UNSUPPORTED if it is larger than one chunk (256 MiB on GPUs).
VMART_EXPORT vmart_status vmart_backing_share(vmart_backing* backing);
/// Frees the memory. VMART_INVALID_ARGUMENT while it is mapped. Null does nothing.
VMART_EXPORT vmart_status vmart_backing_release(vmart_backing* backing);
/// How many bytes of such handles the caller has left to the driver, for `vmart status`.
VMART_EXPORT vmart_status vmart_backing_note_passed(uint64_t size_bytes);

#ifdef __cplusplus
}
#endif
