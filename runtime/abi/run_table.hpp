#pragma once

#include <vma/vmart.h>
#include <vma/vmart_pools.h>
#include <vma/vmart_torch.h>

#include <cstddef>
#include <cstdint>

/// What libvmart offers to libvmart-run alone, the library that `vmart run` preloads: private, and
/// changed whenever both need it. The rules of <vma/vmart.h> apply to each call.

extern "C" {

// --- Memory for addresses that the program reserves

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
vmart_status vmart_backing_create(size_t size_bytes, vmart_place at,
                                  const vmart_backing_options* options, vmart_backing** out);
/// From now on it is an allocation that starts at `address`, with its bytes, for all GPUs that
/// reach it, like memory of `vmart_alloc`; but it ends by `vmart_backing_unmap`. The caller has
/// reserved the addresses and mapped nothing there. VMART_INVALID_ARGUMENT if it is mapped already.
vmart_status vmart_backing_map(vmart_backing* backing, void* address);
/// Ends that; the bytes stay. Blocks: until a running move of it has ended. Does not wait for work,
/// which must not use the memory any more. VMART_PINNED while a pin of it exists.
vmart_status vmart_backing_unmap(vmart_backing* backing);
/// Something else knows the memory by its handle from now on, such as one of
/// cuMemRetainAllocationHandle: it never moves again, and is not reused. VMART_BUSY unless it lies
/// where it was created. VMART_UNSUPPORTED if it is larger than one chunk (256 MiB on GPUs).
vmart_status vmart_backing_share(vmart_backing* backing);
/// Frees the memory. VMART_INVALID_ARGUMENT while it is mapped. Null does nothing.
vmart_status vmart_backing_release(vmart_backing* backing);
/// How many bytes of such handles the caller has left to the driver, for `vmart status`.
vmart_status vmart_backing_note_passed(uint64_t size_bytes);

// --- Captures, contexts and calls that enqueue, beside moves

/// Around a call with which a blocking stream begins to capture, or may join a capture: no stop is
/// enqueued meanwhile. A stop in the legacy stream that is enqueued at that moment would end the
/// capture. Stops do not wait long for the call: a move tries again later. The thread calls nothing
/// else of vmart in between. Blocks: while stops are enqueued; the first call also while another
/// thread waits for a context, for two seconds at most (`vmart_captures_will_be_told`).
void vmart_no_stops_begin(void);
void vmart_no_stops_end(void);

/// From now on the program calls `vmart_no_stops_begin` before every call with which any stream
/// begins to capture. Until the first one the runtime waits for contexts in the usual way, which
/// would end captures. `any_yet`: nonzero if a capture may have begun before. Does not open the
/// runtime.
void vmart_captures_will_be_told(int any_yet);

/// The program has created a context, or is about to destroy it: moves that hold all work hold its
/// work, too. Primary contexts are found without it. Neither opens the runtime.
void vmart_context_created(void* context);
void vmart_context_destroyed(void* context);

/// From now on a move that holds all work calls `begin(limit_ns, data)` just before, and
/// `end(data)` some microseconds later. After `begin` no thread of the program enqueues, and none
/// is inside a call that does; it returns null then, and otherwise, within the limit, why that
/// cannot be: then the move tries again, or ends with that reason. `begin` and `end` must not call
/// vmart. Set once in a process. Does not open the runtime.
void vmart_hold_enqueues(const char* (*begin)(int64_t limit_ns, void* data),
                         void (*end)(void* data), void* data);

/// How long ago the last hold was opened: 0 while one stands, INT64_MAX if there was none. A stream
/// that is held, or whose GPU has not seen the end of the hold yet, is not ready even without work.
int64_t vmart_ns_since_hold(void);

// --- Exports with names of fixed size

/// Names an export on this machine, also after its process has ended.
typedef struct vmart_ipc_name {
  uint32_t user;
  uint32_t process;
  uint32_t pid_namespace; /**< 0: the machine's first one. */
  uint32_t reserved;      /**< 0. */
  uint64_t key;           /**< Random. */
} vmart_ipc_name;

/// Like `vmart_exported_create`, also for memory that was created for this process only: that is
/// replaced first, where it lies. `vmart_exported_release` ends the export. Blocks: then for that
/// move, which stops work as `vmart_migrate` does.
vmart_status vmart_ipc_export(void* pointer, vmart_exported** out, vmart_ipc_name* out_name);
/// Like `vmart_import`, from the export of that name.
vmart_status vmart_ipc_import(const vmart_ipc_name* name, int64_t limit_ns, void** out);

// --- Room at a place

/// The most that the runtime may allocate at a place; UINT64_MAX if nothing limits it. Does not
/// block.
vmart_status vmart_capacity(vmart_place at, uint64_t* out);
/// Bytes of all allocations at a place, mapped or not, plus memory cached after frees and moves,
/// plus tables of the runtime's own. Excludes what the driver needs for its contexts. Does not
/// block.
vmart_status vmart_held_bytes(vmart_place at, uint64_t* out);
/// Moves at least `bytes` away from a place, if so much may move and has room elsewhere, the
/// coldest first, and releases it to the driver with what is cached. `out_bytes`, which may be
/// null, is what has moved. VMART_UNSUPPORTED without a scheduler. Blocks: for the moves.
vmart_status vmart_make_room(vmart_place at, uint64_t bytes, uint64_t* out_bytes);

// --- Uses of memory as data

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
vmart_status vmart_launch_uses(const void* function, const void* const* parameters, int gpu_ordinal,
                               vmart_use* out, size_t max, size_t* count);
/// The same for `vmart_record_launch_block`.
vmart_status vmart_launch_block_uses(const void* function, const void* block, size_t size_bytes,
                                     int gpu_ordinal, vmart_use* out, size_t max, size_t* count);
/// Whether the placement of the open runtime decides by uses because of what was set while the
/// program runs: a policy, or the capacity of a GPU. Does not block.
vmart_status vmart_uses_wanted(int* out);
/// From now on the program calls `vmart_forget_kernels` before and after each unload of kernels:
/// the driver is not asked at each launch whether its kernel is the one that is known. Does not
/// open the runtime.
void vmart_unloads_will_be_told(void);
/// Records all of them, as `vmart_record_use` does for one.
void vmart_record_uses(const vmart_use* uses, size_t count);

}  // extern "C"

// All that libvmart-run calls of libvmart, also of its public interface.
// clang-format off
#define VMART_RUN_CALLS(ROW) \
  ROW(vmart_last_error) \
  ROW(vmart_alloc_with) \
  ROW(vmart_torch_free) \
  ROW(vmart_free) \
  ROW(vmart_free_async) \
  ROW(vmart_base) \
  ROW(vmart_held_bytes) \
  ROW(vmart_capacity) \
  ROW(vmart_make_room) \
  ROW(vmart_trim) \
  ROW(vmart_where) \
  ROW(vmart_migrate) \
  ROW(vmart_backing_create) \
  ROW(vmart_backing_map) \
  ROW(vmart_backing_unmap) \
  ROW(vmart_backing_share) \
  ROW(vmart_backing_release) \
  ROW(vmart_backing_note_passed) \
  ROW(vmart_context_created) \
  ROW(vmart_context_destroyed) \
  ROW(vmart_hold_enqueues) \
  ROW(vmart_ns_since_hold) \
  ROW(vmart_copy_begin) \
  ROW(vmart_copy_end) \
  ROW(vmart_no_stops_begin) \
  ROW(vmart_no_stops_end) \
  ROW(vmart_captures_will_be_told) \
  ROW(vmart_note_export) \
  ROW(vmart_ipc_export) \
  ROW(vmart_ipc_import) \
  ROW(vmart_exported_release) \
  ROW(vmart_pin_create) \
  ROW(vmart_pin_release) \
  ROW(vmart_pool_create) \
  ROW(vmart_pool_destroy) \
  ROW(vmart_pool_release) \
  ROW(vmart_pool_allocate) \
  ROW(vmart_pool_trim) \
  ROW(vmart_pool_stats_get) \
  ROW(vmart_pool_reset_high_marks) \
  ROW(vmart_pool_set_reuse) \
  ROW(vmart_pool_set_release_threshold) \
  ROW(vmart_pool_forget_stream) \
  ROW(vmart_launch_uses) \
  ROW(vmart_launch_block_uses) \
  ROW(vmart_record_uses) \
  ROW(vmart_uses_wanted) \
  ROW(vmart_unloads_will_be_told) \
  ROW(vmart_forget_kernels)
// clang-format on

namespace vma {

/// The calls, for a library that was built with the same `version`.
struct RunTable {
  /// Raise `changes` when a call takes or returns something else; the names of the rows count by
  /// themselves.
  static constexpr std::uint64_t version = [] {
    constexpr std::uint64_t changes = 2;
    std::uint64_t hash = 14695981039346656037u + changes;  // FNV-1a
#define ROW(call)                 \
  for (const char letter : #call) \
    hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u;
    VMART_RUN_CALLS(ROW)
#undef ROW
    return hash;
  }();

#define ROW(call) decltype(&::call) call;
  VMART_RUN_CALLS(ROW)
#undef ROW
};

/// The type of `vmart_run_table`, the only symbol that libvmart-run looks up.
using RunTableOf = const RunTable* (*)(std::uint64_t version);

}  // namespace vma

/// Null for another version.
extern "C" VMART_EXPORT const vma::RunTable* vmart_run_table(std::uint64_t version);
