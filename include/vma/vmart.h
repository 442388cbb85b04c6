#pragma once

/// The C interface, for C, ctypes and other languages: the only surface whose binary form is
/// promised to stay. C99; no other header of this library is needed.
///
/// All functions act on the process-wide runtime, which the first of them opens from the
/// environment (VMART_DRIVER and the others that `RuntimeOptions` in <vma/runtime.hpp> names). Each
/// does what the C++ function of its name does, and may be called from any thread at once. Every
/// call leaves the caller's current CUDA context as it was.
///
/// Errors: a function returns VMART_OK, or why it did nothing; `vmart_last_error` has the text.
/// Where a pointer must not be null, null is VMART_INVALID_ARGUMENT. No exception leaves. What is
/// written to an `out` argument is written on VMART_OK only.
///
/// Addresses: where it says "any address inside", a pointer into the middle of an allocation will
/// do, such as that of a tensor in a segment of PyTorch's pool. Ranges are rounded out to chunks,
/// the unit that moves.

#include <vma/export.hpp>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// CUDA's stream: `cudaStream_t`, `CUstream`. Null is the legacy stream of the current context.
typedef struct CUstream_st* vmart_stream;

/// One for each kind of error that docs/reference/errors.md lists.
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
  VMART_INTERNAL = 99 /**< Anything else, such as out of memory for a list. */
} vmart_status;

/// Values of `vmart_location.kind`.
enum { VMART_GPU = 0, VMART_HOST = 1 };

/// The HBM of a GPU, by CUDA's ordinal, or the memory of a host NUMA node.
typedef struct vmart_location {
  int kind;
  int ordinal;
} vmart_location;

/// Values of `vmart_migrate_options.mode`: how bytes cross, as `vma::Mode` has it.
enum { VMART_MODE_AUTOMATIC = 0, VMART_MODE_LIVE = 1, VMART_MODE_STOPPED = 2 };
/// Values of `vmart_migrate_options.scope`: what is stopped, as `vma::StopScope` has it.
enum { VMART_SCOPE_DEFAULT = 0, VMART_SCOPE_ATTACHED = 1, VMART_SCOPE_HOLD = 2 };

/// Values of the argument `work` of `vmart_attach_as`.
enum { VMART_WORK_ANY = 0, VMART_WORK_NO_GRAPHS = 1 };

/// How to move: `vma::MigrateOptions`. Zero everywhere but in `size_bytes` is what a null pointer
/// to one means. What this library does not know and is not zero is VMART_INVALID_ARGUMENT; live
/// moves under a hold are VMART_UNSUPPORTED.
typedef struct vmart_migrate_options {
  size_t size_bytes; /**< Set it to sizeof(vmart_migrate_options). */
  int32_t mode;
  int32_t scope;
  int64_t deadline_ms; /**< Until it ends in VMART_BUSY; 0 takes the runtime's limit. */
  int32_t priority;
  int32_t reserve_first; /**< This and the following: not 0 is yes. */
  int32_t nothing_runs;
  int32_t wait_for_pins;
  int32_t paranoid;
  int32_t reserved; /**< 0. */
} vmart_migrate_options;

/// Values of `vmart_migration_report.outcome`.
enum { VMART_DONE = 0, VMART_PARTLY = 1, VMART_ENDED_CANCELLED = 2, VMART_FAILED = 3 };

/// What a migration has done so far. Times are nanoseconds; a stall is how long attached streams
/// stood while one chunk was switched.
typedef struct vmart_migration_report {
  size_t size_bytes; /**< Set it to sizeof(vmart_migration_report); returns what was filled. */
  uint64_t bytes_asked;
  uint64_t bytes_moved;
  uint64_t bytes_copied_twice;
  int32_t outcome;
  int32_t chunks;
  int32_t chunks_moved;
  int32_t chunks_live; /**< Of those that moved: copied while the work went on. */
  int32_t retries;
  int32_t reserved;
  int64_t wall_ns;
  int64_t stall_median_ns;
  int64_t stall_p99_ns;
  int64_t stall_max_ns;
} vmart_migration_report;

/// A migration under way. Any thread may use it, until one releases it.
typedef struct vmart_migration vmart_migration;
/// Keeps an allocation where it is until it is released.
typedef struct vmart_pin vmart_pin;

/// "0.1.0". Never fails.
VMART_EXPORT const char* vmart_version(void);
/// The text of the calling thread's last error, "" if it had none. Valid until its next one.
VMART_EXPORT const char* vmart_last_error(void);

/* --- Memory */

/// At least `size_bytes` (> 0), usable on return by every GPU that can reach `at`. Blocks: for
/// memory.
VMART_EXPORT vmart_status vmart_alloc(size_t size_bytes, vmart_location at, void** out);
/// The same with a tag, a name for `vmart_park` and errors.
VMART_EXPORT vmart_status vmart_alloc_tagged(size_t size_bytes, vmart_location at, const char* tag,
                                             void** out);
/// Takes what `vmart_alloc` gave; null does nothing. Blocks: like cudaFree, for the work submitted
/// before. Ends no capture. Launches of other threads may block until then.
VMART_EXPORT vmart_status vmart_free(void* pointer);
/// The same after the work now enqueued on `stream`, without blocking. Refused while it captures.
VMART_EXPORT vmart_status vmart_free_async(void* pointer, vmart_stream stream);
/// Copies to or from host memory, wherever the bytes lie; any address inside. Ordered after the
/// caller's own synchronisation and nothing else. Blocks: for the copy.
VMART_EXPORT vmart_status vmart_read(const void* pointer, void* out, size_t size_bytes);
VMART_EXPORT vmart_status vmart_write(void* pointer, const void* bytes, size_t size_bytes);
/// Where the byte at that address lies now; any address inside. VMART_DROPPED while it has no
/// memory. Does not block.
VMART_EXPORT vmart_status vmart_where(const void* pointer, vmart_location* out);
/// Where the allocation around that address begins, and its usable bytes. Either may be null. Does
/// not block.
VMART_EXPORT vmart_status vmart_base(const void* pointer, void** out_base, size_t* out_size_bytes);

/* --- Moves. Of any address inside: `size_bytes` from `offset` bytes behind it, or, where both are
 * 0, all of its allocation. `options` may be null. */

/// Holds all work of the contexts in use meanwhile, unless `options` have another scope. Blocks:
/// until moved. VMART_UNSUPPORTED while an attached stream captures, or a blocking one; captures on
/// others are ended by the hold.
VMART_EXPORT vmart_status vmart_migrate(void* pointer, size_t offset, size_t size_bytes,
                                        vmart_location to, const vmart_migrate_options* options);
/// In the background, stopping attached streams for a fraction of a millisecond a chunk, unless
/// `options` have another scope. Does not block. The migration goes on whatever happens to `*out`,
/// which must be released.
VMART_EXPORT vmart_status vmart_migrate_async(void* pointer, size_t offset, size_t size_bytes,
                                              vmart_location to,
                                              const vmart_migrate_options* options,
                                              vmart_migration** out);
/// Blocks: until it has ended. Returns what it failed with, VMART_CANCELLED if it was cancelled.
VMART_EXPORT vmart_status vmart_migration_wait(vmart_migration* migration);
/// The same for at most `limit_ns`; `*out_done` is 0 if it goes on, and says nothing of failure.
VMART_EXPORT vmart_status vmart_migration_wait_for(vmart_migration* migration, int64_t limit_ns,
                                                   int* out_done);
VMART_EXPORT vmart_status vmart_migration_done(vmart_migration* migration, int* out_done);
/// Ends it at the next chunk border: what has moved stays moved. Does not block.
VMART_EXPORT vmart_status vmart_migration_cancel(vmart_migration* migration);
/// Any time, before and after its end. Requires: `report->size_bytes` is set.
VMART_EXPORT vmart_status vmart_migration_report_get(vmart_migration* migration,
                                                     vmart_migration_report* report);
/// Gives the handle up, and nothing else. Null does nothing.
VMART_EXPORT void vmart_migration_release(vmart_migration* migration);

/// Moves what lies in HBM of every allocation with the tag to host memory, and gives that HBM back
/// to the driver. Addresses stay. `options` may be null. `*out_stayed_bytes`, if not null: of those
/// that lie in HBM still, pinned or because there is no room. Blocks: until done.
VMART_EXPORT vmart_status vmart_park(const char* tag, const vmart_migrate_options* options,
                                     uint64_t* out_moved_bytes, uint64_t* out_stayed_bytes);
/// The same without keeping the bytes: no memory is left behind the addresses. Until
/// `vmart_resume`, which makes them zeros, they can only be freed, and a kernel that uses them
/// faults. The scope must not be VMART_SCOPE_ATTACHED.
VMART_EXPORT vmart_status vmart_park_dropping(const char* tag, const vmart_migrate_options* options,
                                              uint64_t* out_dropped_bytes,
                                              uint64_t* out_stayed_bytes);
/// Brings them back to the GPUs that they came from, or to another where there is no room.
/// VMART_INVALID_ARGUMENT if nothing is parked by the tag. Blocks: likewise.
VMART_EXPORT vmart_status vmart_resume(const char* tag, const vmart_migrate_options* options,
                                       uint64_t* out_moved_bytes, uint64_t* out_stayed_bytes);
VMART_EXPORT vmart_status vmart_is_parked(const char* tag, int* out_parked);

/* --- Streams whose work uses the memory: moves in the background stop them. None of these
 * synchronises, and all are legal during capture, also on the stream that captures. */

VMART_EXPORT vmart_status vmart_attach(vmart_stream stream);
/// Before the stream is destroyed.
VMART_EXPORT vmart_status vmart_detach(vmart_stream stream);
/// For one allocation only; any address inside.
VMART_EXPORT vmart_status vmart_attach_to(vmart_stream stream, void* pointer);
/// `vmart_attach`, or `vmart_attach_to` if `pointer` is not null; both take VMART_WORK_ANY.
/// VMART_WORK_NO_GRAPHS on a stream where graphs are launched loses writes: see `vma::StreamWork`.
VMART_EXPORT vmart_status vmart_attach_as(vmart_stream stream, void* pointer, int32_t work);
VMART_EXPORT vmart_status vmart_detach_from(vmart_stream stream, void* pointer);

/* --- For memory that something else knows by its physical place */

/// Forbids moves until it is released; any address inside. Blocks: until no chunk of it is being
/// switched.
VMART_EXPORT vmart_status vmart_pin_create(void* pointer, vmart_pin** out);
/// Null does nothing.
VMART_EXPORT void vmart_pin_release(vmart_pin* pin);
/// It was registered or exported (NCCL, RDMA, IPC), and does not move any more until a C++ hook
/// (`vma::on_move`) is there to follow it; any address inside.
VMART_EXPORT vmart_status vmart_note_export(void* pointer);

/* --- What the program knows of its use of memory, for the policies that place it */

/// Values of the argument `kind` of `vmart_record_use`.
enum { VMART_USE_READ = 0, VMART_USE_WRITE = 1, VMART_USE_READ_WRITE = 2 };

/// What is known of the future of a range: `vma::Hint`. Zero everywhere but in `size_bytes` is a
/// use by GPU 0 now. What this library does not know and is not zero is VMART_INVALID_ARGUMENT.
typedef struct vmart_hint {
  size_t size_bytes; /**< Set it to sizeof(vmart_hint). */
  int32_t gpu;       /**< That will use it, CUDA's ordinal. */
  int32_t read_mostly;
  int64_t next_use_ns; /**< From now; negative: nobody knows. */
  int64_t until_ns;    /**< From now, then the hint is forgotten; 0: never. */
  double passes;       /**< Over the range, from then on; 0 is 1. */
} vmart_hint;

/// Work on the GPU uses `size_bytes` from `address` on. Call it where the work is enqueued: it
/// takes nanoseconds and never blocks. Opens no runtime: while none is open it does nothing. What
/// makes no sense is counted and ignored.
VMART_EXPORT void vmart_record_use(const void* address, size_t size_bytes, int gpu_ordinal,
                                   int32_t kind);
/// For a kernel that was just launched on the GPU by `cuLaunchKernel` or one of its like: a use,
/// read and written, of every allocation that its parameters point into. `function` is the
/// CUfunction or CUkernel of the launch, `parameters` its `kernelParams` (may be null for a kernel
/// without parameters). Call it where the launch is enqueued: it takes less than a microsecond, but
/// asks the driver at length when it meets a kernel for the first time. While no runtime is open it
/// does nothing. VMART_INVALID_ARGUMENT for a handle that the driver does not know.
VMART_EXPORT vmart_status vmart_record_launch(const void* function, const void* const* parameters,
                                              int gpu_ordinal);
/// The same for a launch whose `extra` names one block with all parameters in their places
/// (CU_LAUNCH_PARAM_BUFFER_POINTER), as cuBLAS launches. VMART_INVALID_ARGUMENT also for a block
/// that is shorter than the kernel's parameters.
VMART_EXPORT vmart_status vmart_record_launch_block(const void* function, const void* block,
                                                    size_t size_bytes, int gpu_ordinal);
/// After `cuModuleUnload` or `cuLibraryUnload`, whose handles may come back for other kernels:
/// drops what `vmart_record_launch` keeps of kernels.
VMART_EXPORT vmart_status vmart_forget_kernels(void);
/// Any range within one allocation; its last hint counts. Does not block.
VMART_EXPORT vmart_status vmart_advise(const void* address, size_t size_bytes,
                                       const vmart_hint* hint);

/* --- PyTorch: what torch.cuda.memory.CUDAPluggableAllocator asks for, for torch.cuda.MemPool.
 * docs/guide/integrations.md says how. */

/// Null for no bytes and where there is no room, which the pool makes torch.OutOfMemoryError of;
/// `vmart_last_error` has the reason. Legal during capture. Blocks: for memory.
VMART_EXPORT void* vmart_torch_malloc(size_t size_bytes, int device, vmart_stream stream);
/// Blocks: like the cudaFree whose place it takes, for the work submitted before on any stream.
/// Ends no capture. While one is known of (of `stream`, of an attached stream, or of a blocking
/// one) it neither waits nor frees: what `stream` itself captures may be used by its graph and is
/// kept for good, all else goes with a later call.
VMART_EXPORT void vmart_torch_free(void* pointer, size_t size_bytes, int device,
                                   vmart_stream stream);

#ifdef __cplusplus
}
#endif
