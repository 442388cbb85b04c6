#pragma once

/// The C interface, for C, ctypes and other languages. Only this interface has a stable ABI. C99;
/// no other header of this library is needed.
///
/// All functions act on the process-wide runtime, which the first call opens from the environment
/// (VMART_DRIVER and the other variables that `RuntimeOptions` in <vma/runtime.hpp> names). Each
/// does the same as the C++ function of its name and is thread-safe. Every call leaves the caller's
/// current CUDA context unchanged.
///
/// Errors: a function returns VMART_OK or the reason why it did nothing; `vmart_last_error` returns
/// the text. A null pointer where none is allowed is VMART_INVALID_ARGUMENT. No function throws.
/// `out` arguments are written only on VMART_OK.
///
/// Addresses: "any address inside" means that a pointer into the middle of an allocation is
/// accepted, such as the address of a tensor in a segment of PyTorch's pool. Ranges are extended to
/// whole chunks, the unit that moves.

#define VMART_C_INTERFACE
#include <vma/export.hpp>
#undef VMART_C_INTERFACE

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// CUDA's stream: `cudaStream_t`, `CUstream`. Null is the legacy stream of the current context.
typedef struct CUstream_st* vmart_stream;

/// One value for each kind of error listed in docs/reference/errors.md.
typedef enum vmart_status {
  VMART_OK = 0,
  VMART_INVALID_ARGUMENT = 1,
  VMART_UNKNOWN_POINTER = 2,
  VMART_UNREACHABLE = 3,
  VMART_OUT_OF_MEMORY = 4,
  VMART_BUSY = 5,
  VMART_PINNED = 6,
  VMART_CANCELLED = 7,
  VMART_POISONED = 8,
  VMART_NO_DRIVER = 9,
  VMART_DRIVER_GONE = 10,
  VMART_DRIVER_FAILURE = 11,
  VMART_UNSUPPORTED = 12,
  VMART_DROPPED = 13,
  VMART_PEER_FAILURE = 14,
  VMART_NOT_PERMITTED = 15,
  VMART_INTERNAL = 99 /**< Anything else, such as no host memory for a list. */
} vmart_status;

/// Values of `vmart_place.kind`.
enum { VMART_GPU = 0, VMART_HOST = 1 };

/// The HBM of a GPU, by CUDA's ordinal, or the memory of a host NUMA node.
typedef struct vmart_place {
  int kind;
  int ordinal;
} vmart_place;

/// Values of `vmart_migrate_options.mode`: how bytes are copied; see `vma::Mode`.
enum { VMART_MODE_AUTOMATIC = 0, VMART_MODE_LIVE = 1, VMART_MODE_STOPPED = 2 };
/// Values of `vmart_migrate_options.scope`: what is stopped; see `vma::StopScope`.
enum { VMART_SCOPE_DEFAULT = 0, VMART_SCOPE_ATTACHED = 1, VMART_SCOPE_HOLD = 2 };

/// Values of the argument `work` of `vmart_attach_as`.
enum { VMART_WORK_ANY = 0, VMART_WORK_NO_GRAPHS = 1 };

/// How to move; see `vma::MigrateOptions`. All fields zero except `size_bytes` means the same as a
/// null pointer. A nonzero value that this library does not know is VMART_INVALID_ARGUMENT; live
/// moves under a hold are VMART_UNSUPPORTED.
typedef struct vmart_migrate_options {
  size_t size_bytes; /**< Set it to sizeof(vmart_migrate_options). */
  int32_t mode;
  int32_t scope;
  int64_t deadline_ms; /**< Then it fails with VMART_BUSY; 0: see `MigrateOptions`. */
  int32_t priority;
  int32_t reserve_first; /**< Here and below: nonzero means yes. */
  int32_t nothing_runs;
  int32_t wait_for_pins;
  int32_t paranoid;
  int32_t max_stall_us; /**< Of one stop; 0: the runtime's limit. */
  int32_t all_or_nothing;
  int32_t copy_share_percent; /**< Of the source GPU, for live copies; 0: the runtime's share. */
} vmart_migrate_options;

/// Values of `vmart_alloc_options.cpu_access`; see `vma::CpuAccess`.
enum { VMART_CPU_VIEW = 0, VMART_CPU_FAULT = 1 };

/// How to allocate; see `vma::AllocOptions`. All fields zero except `size_bytes` means the same as
/// a null pointer. A nonzero value that this library does not know is VMART_INVALID_ARGUMENT.
typedef struct vmart_alloc_options {
  size_t size_bytes;  /**< Set it to sizeof(vmart_alloc_options). */
  const char* tag;    /**< Copied; null: none. */
  size_t chunk_bytes; /**< 0: the runtime chooses. */
  int32_t zeroed;     /**< Here and below, except `cpu_access`: nonzero means yes. */
  int32_t unmovable;
  int32_t shared_atomics;
  int32_t exportable;
  int32_t pool;
  int32_t cpu_access; /**< When the CPU may touch the memory: VMART_CPU_VIEW or VMART_CPU_FAULT. */
  int32_t spill;
  const char* site; /**< Copied; null: none. */
} vmart_alloc_options;

/// Values of `vmart_migration_report.outcome`.
enum { VMART_DONE = 0, VMART_PARTLY = 1, VMART_ENDED_CANCELLED = 2, VMART_FAILED = 3 };

/// Values of `vmart_migration_report.stop`: what stopped the work.
enum { VMART_STOP_NONE = 0, VMART_STOP_GATE = 1, VMART_STOP_HOLD = 2, VMART_STOP_SUSPENSION = 3 };

/// What a migration has done so far. Times are in nanoseconds. A stall is how long work was
/// stopped.
typedef struct vmart_migration_report {
  size_t size_bytes; /**< Set it to sizeof(vmart_migration_report); returns the filled size. */
  uint64_t bytes_asked;
  uint64_t bytes_moved;
  uint64_t bytes_copied_twice;
  int32_t outcome;
  int32_t chunks;
  int32_t chunks_moved;
  int32_t chunks_live; /**< Moved, and copied while the work ran. */
  int32_t retries;
  int32_t gates; /**< Stops of work, of whatever kind; several chunks may share one. */
  int64_t wall_ns;
  int64_t stall_median_ns;
  int64_t stall_p99_ns;
  int64_t stall_max_ns;
  int32_t status; /**< Why it has not moved in full, as a `vmart_status`. */
  int32_t stop;   /**< The last kind of stop. Earlier versions returned zero. */
} vmart_migration_report;

/// One of several moves; see `vma::MoveRequest`.
typedef struct vmart_move_request {
  size_t size_bytes; /**< Set it to sizeof(vmart_move_request), in each element of an array. */
  void* pointer;     /**< As for `vmart_migrate`. */
  size_t offset;
  size_t bytes; /**< Starting `offset` bytes after `pointer`; both 0: the whole allocation. */
  vmart_place to;
} vmart_move_request;

/// A running migration. Thread-safe until it is released.
typedef struct vmart_migration vmart_migration;
/// Running migrations of several requests. Thread-safe until it is released.
typedef struct vmart_migration_group vmart_migration_group;
/// Prevents an allocation from moving until it is released.
typedef struct vmart_pin vmart_pin;
/// Follows the moves of an allocation until it is released.
typedef struct vmart_move_hook vmart_move_hook;
/// Lets other processes import an allocation until it is released. Thread-safe until then.
typedef struct vmart_exported vmart_exported;

/// Such as "0.2.0". Never fails.
VMART_EXPORT const char* vmart_version(void);
/// The text of the calling thread's last error, or "". Valid until the thread's next error.
VMART_EXPORT const char* vmart_last_error(void);

/* --- Memory */

/// Allocates at least `size_bytes` (> 0). On return, every GPU that can reach `at` can use the
/// memory. Blocks: for memory.
VMART_EXPORT vmart_status vmart_alloc(size_t size_bytes, vmart_place at, void** out);
/// The same with a tag, which names the allocation for `vmart_park` and in errors.
VMART_EXPORT vmart_status vmart_alloc_tagged(size_t size_bytes, vmart_place at, const char* tag,
                                             void** out);
/// The same with options, which may be null.
VMART_EXPORT vmart_status vmart_alloc_with(size_t size_bytes, vmart_place at,
                                           const vmart_alloc_options* options, void** out);
/// Frees memory from `vmart_alloc`; null does nothing. Blocks: like cudaFree, for the work
/// submitted earlier. Does not end captures. Launches of other threads may block until it returns.
VMART_EXPORT vmart_status vmart_free(void* pointer);
/// Frees the memory after the work now enqueued on `stream`, without blocking. Refused while
/// `stream` captures.
VMART_EXPORT vmart_status vmart_free_async(void* pointer, vmart_stream stream);
/// Copies to or from host memory, wherever the bytes lie; any address inside. Ordered only after
/// the caller's own synchronisation. Blocks: for the copy.
VMART_EXPORT vmart_status vmart_read(const void* pointer, void* out, size_t size_bytes);
VMART_EXPORT vmart_status vmart_write(void* pointer, const void* bytes, size_t size_bytes);
/// Where the byte at `pointer` lies now; any address inside. VMART_DROPPED while it has no memory.
/// Does not block.
VMART_EXPORT vmart_status vmart_where(const void* pointer, vmart_place* out);
/// The start and the usable bytes of the allocation that contains `pointer`. Either output may be
/// null. Does not block.
VMART_EXPORT vmart_status vmart_base(const void* pointer, void** out_base, size_t* out_size_bytes);

/// Bytes of freed memory that the runtime keeps at a place for later allocations. Does not block.
VMART_EXPORT vmart_status vmart_cached_bytes(vmart_place at, uint64_t* out);
/// Releases it to the driver. `out_bytes` may be null.
VMART_EXPORT vmart_status vmart_trim(vmart_place at, uint64_t* out_bytes);
/* --- Moves. `pointer` is any address inside an allocation or a block of a pool. The range is
 * `size_bytes` starting `offset` bytes after it; if both are 0, the whole allocation or block.
 * `options` may be null. */

/// Suspends all work of the process, which may still run when this returns, unless `options` have
/// another scope. Where that cannot be had, holds all work of the contexts in use; that is
/// VMART_UNSUPPORTED while an attached or blocking stream captures, and ends captures on other
/// streams. Blocks: until moved.
VMART_EXPORT vmart_status vmart_migrate(void* pointer, size_t offset, size_t size_bytes,
                                        vmart_place to, const vmart_migrate_options* options);
/// Moves in the background. Suspends all work for some milliseconds, or stops the attached streams
/// if they get to a gate sooner, unless `options` have another scope. Chunks of migrations with the
/// same options share stops. Does not block. Release `*out` in any case; the migration continues
/// without it.
VMART_EXPORT vmart_status vmart_migrate_async(void* pointer, size_t offset, size_t size_bytes,
                                              vmart_place to, const vmart_migrate_options* options,
                                              vmart_migration** out);
/// Blocks: until the migration has ended. Returns its error, or VMART_CANCELLED if it was
/// cancelled.
VMART_EXPORT vmart_status vmart_migration_wait(vmart_migration* migration);
/// Waits for at most `limit_ns`. `*out_done` is 0 if the migration is still running; it does not
/// tell whether it failed.
VMART_EXPORT vmart_status vmart_migration_wait_for(vmart_migration* migration, int64_t limit_ns,
                                                   int* out_done);
VMART_EXPORT vmart_status vmart_migration_done(vmart_migration* migration, int* out_done);
/// Ends the migration at the next chunk boundary: chunks that have moved stay at the target. Does
/// not block.
VMART_EXPORT vmart_status vmart_migration_cancel(vmart_migration* migration);
/// May be called before and after the end. Requires: `report->size_bytes` is set.
VMART_EXPORT vmart_status vmart_migration_report_get(vmart_migration* migration,
                                                     vmart_migration_report* report);
/// Releases only the handle, not the migration. Null does nothing.
VMART_EXPORT void vmart_migration_release(vmart_migration* migration);

/* --- Several moves with one call. If a request is invalid, the call fails and nothing moves. */

/// As `vmart_migrate`, in one stop for all requests. `total` and `reports`
/// may be null; `reports` is an array of `count` elements, one for each request. Set `size_bytes`
/// in each report before each call. If requests fail, the others move nonetheless (unless
/// `options->all_or_nothing`), the status is that of the most serious error, `vmart_last_error`
/// names the requests, and the reports are written, too. Blocks: until moved.
VMART_EXPORT vmart_status vmart_migrate_many(const vmart_move_request* requests, size_t count,
                                             const vmart_migrate_options* options,
                                             vmart_migration_report* total,
                                             vmart_migration_report* reports);
/// Moves in the background. All requests are submitted at once, so that those
/// share stops. Does not block. Release `*out` in any case; the migrations continue without it.
VMART_EXPORT vmart_status vmart_migrate_many_async(const vmart_move_request* requests, size_t count,
                                                   const vmart_migrate_options* options,
                                                   vmart_migration_group** out);
/// Blocks: until all requests have ended. If some have not moved in full: as `vmart_migrate_many`.
VMART_EXPORT vmart_status vmart_migration_group_wait(vmart_migration_group* group);
/// Waits for at most `limit_ns`. `*out_done` is 0 if a request is still moving.
VMART_EXPORT vmart_status vmart_migration_group_wait_for(vmart_migration_group* group,
                                                         int64_t limit_ns, int* out_done);
VMART_EXPORT vmart_status vmart_migration_group_done(vmart_migration_group* group, int* out_done);
/// Ends all requests at their next chunk boundaries. Does not block.
VMART_EXPORT vmart_status vmart_migration_group_cancel(vmart_migration_group* group);
/// May be called before and after the end. `total` and `reports` may be null, and have their
/// `size_bytes` set; `count` is the number of requests.
VMART_EXPORT vmart_status vmart_migration_group_report_get(vmart_migration_group* group,
                                                           vmart_migration_report* total,
                                                           vmart_migration_report* reports,
                                                           size_t count);
/// The migration of one request, counted from 0, for instance to cancel it alone. Release `*out`.
VMART_EXPORT vmart_status vmart_migration_group_request(vmart_migration_group* group, size_t which,
                                                        vmart_migration** out);
/// Releases only the handle, not the migrations. Null does nothing.
VMART_EXPORT void vmart_migration_group_release(vmart_migration_group* group);

/// Moves the HBM part of every allocation with the tag to host memory and returns that HBM to the
/// driver. Addresses stay the same. `options` may be null. `*out_stayed_bytes`, if not null,
/// receives the bytes still in HBM because they are pinned or there is no room. Blocks: until done.
VMART_EXPORT vmart_status vmart_park(const char* tag, const vmart_migrate_options* options,
                                     uint64_t* out_moved_bytes, uint64_t* out_stayed_bytes);
/// Parks without keeping the bytes: the addresses have no memory. Until `vmart_resume`, which
/// provides zeros, the allocations can only be freed, and a kernel that uses them faults. The scope
/// must not be VMART_SCOPE_ATTACHED.
VMART_EXPORT vmart_status vmart_park_dropping(const char* tag, const vmart_migrate_options* options,
                                              uint64_t* out_dropped_bytes,
                                              uint64_t* out_stayed_bytes);
/// Moves the chunks back to their original GPUs, or to another GPU if there is no room.
/// VMART_INVALID_ARGUMENT if nothing is parked under the tag. Blocks: until done.
VMART_EXPORT vmart_status vmart_resume(const char* tag, const vmart_migrate_options* options,
                                       uint64_t* out_moved_bytes, uint64_t* out_stayed_bytes);
VMART_EXPORT vmart_status vmart_is_parked(const char* tag, int* out_parked);

/* --- Streams whose work uses the memory: background moves may stop these alone, if all that use
 * it are attached; where work can be suspended, moves need none. None of these calls synchronises,
 * and all are legal during capture, also on the stream that captures. During a call that attaches a
 * stream, no other thread may begin a capture on that stream. */

VMART_EXPORT vmart_status vmart_attach(vmart_stream stream);
/// Detach a stream before you destroy it.
VMART_EXPORT vmart_status vmart_detach(vmart_stream stream);
/// The same if no move uses the stream now, which `out_detached` says. Does not block.
VMART_EXPORT vmart_status vmart_try_detach(vmart_stream stream, int* out_detached);
/// For one allocation only; any address inside.
VMART_EXPORT vmart_status vmart_attach_to(vmart_stream stream, void* pointer);
/// `vmart_attach`, or `vmart_attach_to` if `pointer` is not null, with a choice of `work`; those
/// two use VMART_WORK_ANY. VMART_WORK_NO_GRAPHS on a stream with graph launches loses writes: see
/// `vma::StreamWork`.
VMART_EXPORT vmart_status vmart_attach_as(vmart_stream stream, void* pointer, int32_t work);
VMART_EXPORT vmart_status vmart_detach_from(vmart_stream stream, void* pointer);

/// Go around calls that enqueue copies or fills of memory that may move meanwhile, unless the
/// runtime guards them by itself; see `vma::CopyScope`. The first one blocks: while streams are
/// stopped for a switch. Neither opens the runtime.
VMART_EXPORT void vmart_copy_begin(void);
VMART_EXPORT void vmart_copy_end(void);

/* --- Memory that something else refers to by its physical location */

/// Forbids moves until the pin is released; any address inside. Blocks: until none of its chunks is
/// being switched.
VMART_EXPORT vmart_status vmart_pin_create(void* pointer, vmart_pin** out);
/// Null does nothing.
VMART_EXPORT void vmart_pin_release(vmart_pin* pin);
/// Declares that the memory was registered or exported (NCCL, RDMA, IPC). It does not move until a
/// hook exists that follows it; any address inside.
VMART_EXPORT vmart_status vmart_note_export(void* pointer);

/// Values of `vmart_move_event.phase`. After VMART_MOVE_BEGINS, exactly one of the others follows
/// for the same chunk, unless the callback itself refused.
enum {
  VMART_MOVE_BEGINS = 0,  /**< The chunk is about to move: remove registrations of its memory. */
  VMART_MOVE_DONE = 1,    /**< It lies at `to`: register its memory there. */
  VMART_MOVE_STAYED = 2,  /**< It lies at `from`, as before: register that memory again. */
  VMART_MOVE_DROPPED = 3, /**< It has no memory (`vmart_park_dropping`) until its next move. */
};

/// One chunk of an allocation, which moves as a whole; see `vma::MoveEvent`. Later versions may
/// append members.
typedef struct vmart_move_event {
  size_t size_bytes; /**< Of this struct in the library that calls. */
  void* pointer;     /**< Start of the allocation. */
  size_t offset;     /**< Of the chunk within the allocation. */
  size_t bytes;
  vmart_place from, to;
  uint64_t generation; /**< Of the chunk; grows with each move. */
  int32_t phase;
  int32_t done; /**< Zero. The callback sets it to 1 once it has done its part. */
} vmart_move_event;

/// Sets `event->done` to 1. If it does not, a chunk that was about to move stays, and its move
/// fails with VMART_CANCELLED; in the other phases the failure is logged and counted. So a Python
/// function that raises keeps memory in place: what such a function returns through ctypes is
/// undefined.
///
/// Runs on the thread that moves the chunk: that of a `vmart_migrate`, or one of the runtime. No
/// work is stopped and no lock of the library is held. So it may wait for streams, call CUDA and
/// call this library, but it must not wait for a migration, because the move waits for it. Freeing
/// or moving the same allocation is refused. Between its two calls for a chunk, the program must
/// not use a registration of that memory. `event` is valid until it returns. It must neither throw
/// nor jump.
typedef void (*vmart_move_callback)(vmart_move_event* event, void* user);

/// Calls `callback` before and after each chunk of the allocation moves; any address inside. For a
/// block of a pool, this is the segment that contains it. Hooks are called in the order in which
/// they were created. A move in progress may call it before this returns. To miss no move, first
/// call `vmart_note_export`, then register the memory, then create the hook.
VMART_EXPORT vmart_status vmart_move_hook_create(void* pointer, vmart_move_callback callback,
                                                 void* user, vmart_move_hook** out);
/// When this returns, the callback does not run and will not be called; but inside the callback
/// itself, it returns at once. Release hooks whose callback belongs to an interpreter before that
/// ends. Null does nothing. Blocks: while the callback runs on another thread, so do not hold a
/// lock that it takes.
VMART_EXPORT void vmart_move_hook_release(vmart_move_hook* hook);

/* --- Memory of several processes */

/// Lets other processes of this user import the allocation that starts at `pointer`, through the
/// Unix socket at `path`; null for a new one in a folder of this user. While a process has imported
/// it, it does not move; it cannot be freed before the release. VMART_UNSUPPORTED: its memory was
/// created for this process only; set VMART_EXPORTABLE=fd. See `vma::export_allocation`.
VMART_EXPORT vmart_status vmart_exported_create(void* pointer, const char* path,
                                                vmart_exported** out);
/// Path of the socket, for `vmart_import`. Valid until the release; null for null.
VMART_EXPORT const char* vmart_exported_path(const vmart_exported* exported);
/// The number of processes that have imported it, or are about to.
VMART_EXPORT vmart_status vmart_exported_importers(const vmart_exported* exported, size_t* out);
/// Ends the export. Importers keep the memory that they have. Null does nothing.
VMART_EXPORT void vmart_exported_release(vmart_exported* exported);
/// Imports what another process exports at `path`, within `limit_ns` (0 for 5 s; see
/// `vma::ImportOptions::limit`), and returns its address in this process. `vmart_free` lets go of
/// it. VMART_PEER_FAILURE: nobody exports there, or the exporter ended. VMART_NOT_PERMITTED: it
/// belongs to another user. VMART_BUSY: the exporter did not answer in time.
VMART_EXPORT vmart_status vmart_import(const char* path, int64_t limit_ns, void** out);

/* --- What the program knows about its memory use, for the placement policies */

/// Values of the argument `kind` of `vmart_record_use`.
enum {
  VMART_USE_READ = 0,
  VMART_USE_WRITE = 1,
  VMART_USE_READ_WRITE = 2, /**< Accesses the bytes twice. */
  VMART_USE_UNKNOWN = 3     /**< One of the first two. */
};

/// What is known about future uses of a range; see `vma::Hint`. All fields zero except `size_bytes`
/// means a use by GPU 0 now. A nonzero value that this library does not know is
/// VMART_INVALID_ARGUMENT.
typedef struct vmart_hint {
  size_t size_bytes; /**< Set it to sizeof(vmart_hint). */
  int32_t gpu;       /**< The GPU that will use it, as a CUDA ordinal. */
  int32_t read_mostly;
  int64_t next_use_ns; /**< From now; negative: unknown. */
  int64_t until_ns;    /**< From now; then the hint expires. 0: never. */
  double passes;       /**< Passes over the range, from then on; 0 means 1. */
} vmart_hint;

/// Reports that work on the GPU uses `size_bytes` starting at `address`. Call it where the work is
/// enqueued: it takes nanoseconds and never blocks. Does not open a runtime: without an open one it
/// does nothing. Invalid values are counted and ignored. If `size_bytes` is 0, the use reaches to
/// the next address in the allocation at which another such use has begun, or to the end.
VMART_EXPORT void vmart_record_use(const void* address, size_t size_bytes, int gpu_ordinal,
                                   int32_t kind);
/// For a kernel that was just launched on the GPU by `cuLaunchKernel` or a similar call: reports a
/// use of unknown size and kind at every address of an allocation that its parameters have.
/// `function` is the CUfunction or CUkernel of the launch; `parameters` is its `kernelParams` (may
/// be null for a kernel without parameters). Call it where the launch is enqueued. It takes less
/// than a microsecond, but queries the driver, which is slow, for each new kernel. Without an open
/// runtime it does nothing. VMART_INVALID_ARGUMENT for a handle that the driver does not know.
VMART_EXPORT vmart_status vmart_record_launch(const void* function, const void* const* parameters,
                                              int gpu_ordinal);
/// The same for a launch whose `extra` passes one buffer with all parameters
/// (CU_LAUNCH_PARAM_BUFFER_POINTER), as cuBLAS does. VMART_INVALID_ARGUMENT also for a buffer that
/// is shorter than the kernel's parameters.
VMART_EXPORT vmart_status vmart_record_launch_block(const void* function, const void* block,
                                                    size_t size_bytes, int gpu_ordinal);
/// Call after `cuModuleUnload` or `cuLibraryUnload`, whose handles may be reused for other kernels:
/// clears what `vmart_record_launch` has cached about kernels.
VMART_EXPORT vmart_status vmart_forget_kernels(void);
/// Any range within one allocation; the last hint for it counts. Does not block.
VMART_EXPORT vmart_status vmart_advise(const void* address, size_t size_bytes,
                                       const vmart_hint* hint);

#ifdef __cplusplus
}
#endif

#include <vma/vmart_pools.h>
