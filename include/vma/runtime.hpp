#pragma once

#include <vma/calibration.hpp>
#include <vma/device.hpp>
#include <vma/error.hpp>
#include <vma/export.hpp>
#include <vma/group.hpp>
#include <vma/place.hpp>
#include <vma/migration.hpp>
#include <vma/options.hpp>
#include <vma/policy.hpp>
#include <vma/pool.hpp>
#include <vma/scheduler.hpp>
#include <vma/sharing.hpp>
#include <vma/stats.hpp>
#include <vma/telemetry.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vma {
struct RuntimeParts;  // Internal.
}

namespace vma::inline v1 {

/// Lets the CPU load and store the bytes of an allocation at host nodes, through the same pointer.
/// While a view exists, the chunks cannot move: `migrate` throws Error{pinned}. Movable, not
/// copyable; the destructor revokes the access. It waits for no GPU, nor does a `migrate` before
/// it: synchronise with the work whose results the CPU reads.
class VMART_EXPORT HostView {
 public:
  HostView(HostView&&) noexcept;
  HostView& operator=(HostView&&) noexcept;
  ~HostView();

  std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  friend class Runtime;
  struct Pin;
  HostView(std::unique_ptr<Pin> pin, std::span<std::byte> bytes) noexcept;
  std::unique_ptr<Pin> pin_;
  std::span<std::byte> bytes_;
};

/// Prevents an allocation from moving while this object exists. Movable, not copyable.
class VMART_EXPORT Pin {
 public:
  Pin(Pin&&) noexcept;
  Pin& operator=(Pin&&) noexcept;
  ~Pin();

 private:
  friend class Runtime;
  struct State;
  explicit Pin(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// Makes an allocation read-only for every device while this object exists: a write by a kernel
/// fails with an illegal-address error. Its chunks do not have to be checked for changes when they
/// move live. Movable, not copyable; the destructor grants write access again.
class VMART_EXPORT ReadOnly {
 public:
  ReadOnly(ReadOnly&&) noexcept;
  ReadOnly& operator=(ReadOnly&&) noexcept;
  ~ReadOnly();

 private:
  friend class Runtime;
  struct State;
  explicit ReadOnly(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// Keeps the hooks of an allocation registered while this object exists. Movable, not copyable.
class VMART_EXPORT MoveHookRegistration {
 public:
  MoveHookRegistration(MoveHookRegistration&&) noexcept;
  MoveHookRegistration& operator=(MoveHookRegistration&&) noexcept;
  /// Unregisters the hooks. Blocks while one of them runs on another thread.
  ~MoveHookRegistration();

 private:
  friend class Runtime;
  struct State;
  explicit MoveHookRegistration(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// Manages the memory of one machine and everything allocated from it.
///
/// All members are thread-safe. Every call leaves the caller's current CUDA context unchanged. A
/// process can have one runtime on CUDA and any number of simulated ones; the free functions of
/// <vma/vma.hpp> use a process-wide runtime that opens at first use, or by `open_runtime`.
class VMART_EXPORT Runtime {
 public:
  /// Throws: Error{no_driver, unsupported, invalid_argument}. Blocks: in the driver, for a second
  /// or more if this is the first use of CUDA in the process.
  explicit Runtime(const RuntimeOptions& options = {});
  /// Calls `shutdown`. Pointers that are still allocated become invalid.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Allocates at least `bytes` (> 0), rounded up to whole chunks, on the GPU of the caller's
  /// current context, or on the first GPU if there is none. On return, every device that can reach
  /// the memory can use it. Throws: Error{out_of_memory, invalid_argument}. Blocks: for memory.
  void* alloc(std::size_t bytes, const AllocOptions& options = {});
  /// The same at `where`. Also throws Error{invalid_argument} for an unknown place.
  void* alloc(std::size_t bytes, Place where, const AllocOptions& options = {});
  /// The same for memory that the GPUs in `readers` use. Throws Error{unreachable} if one of them
  /// cannot reach `where`; the runtime itself moves the memory only to places that all of them can
  /// reach. Without readers, these are the places that every GPU that reaches `where` can reach.
  void* alloc(std::size_t bytes, Place where, std::span<const Place> readers,
              const AllocOptions& options = {});

  /// Waits, like cudaFree, for all work submitted earlier in every context in use, then frees the
  /// memory. Null is allowed and does nothing. Does not wait to free a block of a Pool. Throws:
  /// Error{unknown_pointer} for a pointer that `alloc` did not return or that was already freed.
  /// Does not end captures. Launches of other threads may block until it returns.
  void free(void* pointer);
  /// Frees memory or a block of a pool after the work that is now enqueued on `stream`. Does not
  /// block. Throws: Error{invalid_argument} while `stream` captures; but see Pool::deallocate.
  void free_async(void* pointer, Stream stream);
  /// Pools at a place, see <vma/pool.hpp>: a new one, the default one, and that which `alloc_async`
  /// uses on streams of a GPU. Throw: Error{invalid_argument} for an unknown place, or if
  /// destroyed.
  Pool make_pool(Place where, const PoolOptions& options = {});
  Pool default_pool(Place where);
  Pool current_pool(Place where);
  void set_current_pool(const Pool& pool);
  void* alloc_async(std::size_t bytes, Stream stream);
  /// Moves the memory of a pool as one group, and allocates its new memory at `to` from then on.
  GroupReport migrate(const Pool& pool, Place to, const MigrateOptions& options = {});

  /// Moves the allocation, or the block of a pool, that contains `pointer`; its address stays the
  /// same. Like a group of one request: see `MoveRequest`. With `StopScope::attached`, this is
  /// `migrate_async` and a wait. Otherwise all work of the process stands meanwhile, wherever it
  /// is, and goes on when the bytes have moved: it may still run when this returns. Where work
  /// cannot be suspended (runtime/migrate/stops/README.md), every context in use is held: work
  /// submitted earlier finishes before bytes move, later work waits.
  ///
  /// Throws: Error{busy} if the work could not be stopped in time, or if a driver call took too
  /// long and it was let go on; {cancelled} if the memory is freed meanwhile; {out_of_memory},
  /// {pinned}, {poisoned}, {driver_failure}; for a hold, {unsupported} while an attached or
  /// blocking stream captures. Chunks that have already moved stay at the target; `report()` lists
  /// those that did not move. Blocks: until done. A hold ends captures on all other streams,
  /// including one that begins at that moment.
  MigrationReport migrate(void* pointer, Place to, const MigrateOptions& options = {});
  /// The same for `bytes` (> 0) that begin `offset` bytes after `pointer`. Only whole chunks move:
  /// the range is extended to chunk boundaries, and the report's `offset` and `bytes_asked` give
  /// the extended range. See `AllocOptions::chunk_bytes`.
  MigrationReport migrate(void* pointer, std::size_t offset, std::size_t bytes, Place to,
                          const MigrateOptions& options = {});
  /// Moves several allocations, or parts of them, in one stop: their bytes are copied side by side
  /// on all routes. With `StopScope::attached`, this
  /// is the `migrate_async` of the requests followed by a wait. See <vma/group.hpp> for what
  /// requests may be. An allocation with hooks moves after the others, under a hold of its own,
  /// because a hook may free other memory.
  ///
  /// Throws: Error with `group()` if not all requests moved in full; otherwise as `migrate`, for
  /// invalid requests and options, before anything is stopped. Blocks: until all have ended; while
  /// other threads move or free the allocations. A free of one of them waits for the whole call.
  GroupReport migrate(std::span<const MoveRequest> requests, const MigrateOptions& options = {});

  /// Moves the allocation in the background and returns at once. The work is suspended for some
  /// milliseconds, in which as many chunks switch as fit; only the attached streams stop, at gates,
  /// if they get there sooner. Where work cannot be suspended, gates stop it, or holds if no
  /// attached stream may use the allocation. Throws: Error{invalid_argument} for bad arguments, and
  /// if nothing of that can be had; {pinned}, {poisoned}, {unknown_pointer}. The Migration reports
  /// all other errors.
  Migration migrate_async(void* pointer, Place to, const MigrateOptions& options = {});
  Migration migrate_async(void* pointer, std::size_t offset, std::size_t bytes, Place to,
                          const MigrateOptions& options = {});

  /// Moves several allocations, or parts of them, in the background. All are submitted at once, so
  /// that those which move the same way share gates; with `StopScope::hold` they share holds.
  /// Throws: as the synchronous form, for invalid requests and options. What may not move is
  /// reported by the MigrationGroup, like all other errors.
  MigrationGroup migrate_async(std::span<const MoveRequest> requests,
                               const MigrateOptions& options = {});

  /// Moves the HBM part of every allocation with the tag to host memory and returns that HBM to the
  /// driver. Addresses stay the same, and running work continues as for `migrate`. The host memory
  /// is allocated before anything stops, and is kept for the next time. Chunks that may not or
  /// could not move stay and are reported; a second call retries them. A parked allocation can be
  /// used, moved and freed like any other.
  ///
  /// With `ParkContents::drop` no bytes move: chunks that are in HBM, or were parked earlier, lose
  /// their memory and keep only their address. Work submitted earlier has finished by then; later
  /// work that uses the range faults as on an unmapped address, which ends the context. Until
  /// `resume`, the allocation can only be freed: `read`, `write`, `migrate`, `pin`, `host_view` and
  /// `note_export` throw Error{dropped}. Chunks that lie at host nodes for other reasons keep their
  /// bytes.
  ///
  /// Throws: Error{invalid_argument} for an empty tag, or a tag that no allocation has;
  /// {unsupported} for dropping at gates (`StopScope::attached`). Blocks: until done. Must not be
  /// called from a hook. A hold ends captures as described at `migrate`.
  ParkReport park(const std::string& tag, const ParkOptions& options = {});
  /// Moves every chunk parked under the tag back to its original GPU. If that GPU is full, the
  /// chunk goes to another GPU that has room and that every GPU that may use the chunk can reach. A
  /// chunk that has been moved to HBM since stays there. Room is made as for an allocation; a chunk
  /// that fits nowhere is reported and stays parked, and a second call retries it. A chunk whose
  /// contents were dropped comes back as zeros (see `ParkOptions::zeroed`), without stopping
  /// anything. Throws:
  /// Error{invalid_argument} if nothing is parked under the tag. Blocks: as `park`.
  ParkReport resume(const std::string& tag, const ParkOptions& options = {});
  bool is_parked(const std::string& tag) const;

  /// Says that work of the stream uses memory of this runtime, or of one allocation. No move needs
  /// that where work can be suspended; it allows gates: if all attached streams that may use memory
  /// would get to one within a millisecond, only they stop, for less time. At gates, work on
  /// streams that are not attached must not touch a range that moves: attach all that use it, or
  /// none.
  ///
  /// The stream may be a created one, the legacy stream (null or cudaStreamLegacy) or
  /// cudaStreamPerThread. If one of these two or several blocking streams of a context are
  /// attached, all blocking streams of that context may be stopped. Detach a stream before
  /// destroying it: the driver's behaviour for a destroyed stream is undefined, and a new stream
  /// with the same handle counts as attached. `work` says whether graphs are launched on the
  /// stream: `no_graphs` on a stream with graph launches loses writes, see StreamWork. Attaching
  /// adds no cost to launches.
  ///
  /// Never synchronises. Legal at any time from any thread, also while the stream captures: neither
  /// `attach` nor `detach` ends that capture. But during `attach`, no other thread may begin a
  /// capture on the same stream. A move at gates waits for captures of attached streams. It ends
  /// none, except that of a blocking stream which begins just as the move stops the legacy stream
  /// of its context (docs/guide/promises.md). Blocks: while a move switches a chunk.
  /// After streams that came or went interrupted a move twice, `attach` and `detach` wait for its
  /// next try, which gives its streams a quarter of a second to stop. Throws:
  /// Error{invalid_argument} if the stream is already attached in this way, belongs to a GPU that
  /// the runtime does not use, or is unknown to the driver.
  void attach(Stream stream, StreamWork work = StreamWork::any);
  void attach(Stream stream, void* pointer, StreamWork work = StreamWork::any);
  /// When this returns, the runtime no longer uses the stream, which may then be destroyed. Throws:
  /// Error{invalid_argument} if the stream is not attached in this way. Blocks: while a move stops
  /// the stream. A move gives up its gate for this if not all streams have stopped yet, at most
  /// twice per chunk. Does not wait for the stream's backlog, unless the driver delays the move's
  /// own call.
  void detach(Stream stream);
  void detach(Stream stream, void* pointer);
  /// As the first one, but false, with nothing done, if a move uses the stream now. Does not block.
  bool try_detach(Stream stream);

  /// Forbids moves while the Pin exists. Moves in progress end at the next chunk boundary, or wait
  /// if they were asked to. Blocks: until none of its chunks is being switched.
  Pin pin(void* pointer);
  /// Blocks: as `pin`. Throws: Error{pinned} while a HostView of the allocation exists.
  ReadOnly read_only(void* pointer);
  /// A hook must not wait for another migration, because the move waits for the hook. Attempts to
  /// free or move the allocation from a hook are refused. For a block of a pool, hooks follow the
  /// segment that contains it.
  MoveHookRegistration on_move(void* pointer, MoveHooks hooks);
  /// Declares that the caller passes the memory to something that refers to physical memory (an IPC
  /// handle, a dma-buf, a registration). The allocation then does not move until a hook is
  /// registered.
  void note_export(void* pointer);

  /// Lets other processes import the allocation that starts at `pointer`; see <vma/sharing.hpp>.
  /// Throws: Error{unsupported} with the reason if its memory cannot be exported;
  /// {invalid_argument, busy} for the path; {poisoned}, {dropped}, {unknown_pointer}.
  ExportedAllocation export_allocation(void* pointer, const ExportOptions& options = {});
  /// Returns the address of the allocation that another process exports at `path`. It does not move
  /// here, and `free` only lets go of it. Throws: Error{peer_failure, not_permitted, unreachable},
  /// {busy} after `ImportOptions::limit`, and what the exporter refuses with.
  void* import_allocation(const std::string& path, const ImportOptions& options = {});
  /// Lets other processes import blocks of a pool with `PoolOptions::exportable`. Throws:
  /// Error{busy} while it is exported already; {invalid_argument} for the path.
  ExportedPool export_pool(const Pool& pool, const ExportOptions& options = {});
  /// Returns the address of a block of a pool that another process exports at `path`. Blocks of one
  /// segment share one import of the whole segment, with the options of the first; it ends with the
  /// last of them. To be freed once for each import, like a block of an own pool: `free`,
  /// `free_async` and `Pool::deallocate` let go of it. Throws: as `import_allocation`, and
  /// Error{invalid_argument} for a block that is not within its segment.
  void* import_pointer(const std::string& path, const ExportedPointer& pointer,
                       const ImportOptions& options = {});

  /// Reports that work on `device` uses `bytes` starting at `address`; see <vma/telemetry.hpp>.
  /// Takes nanoseconds and never blocks. Does nothing after shutdown.
  void record_use(const void* address, std::size_t bytes, Place device,
                  UseKind kind = UseKind::read) noexcept;
  void record_uses(std::span<const Use> uses) noexcept;
  /// Announces a future use. Throws: Error{unknown_pointer}; {invalid_argument} for a range that is
  /// not within one allocation, a device that is not a GPU of the runtime, a time in the past, or a
  /// number of passes that is not positive. Does not block.
  void advise(const void* address, std::size_t bytes, const Hint& hint);

  /// Returns where the bytes of the allocation lie, in address order. Accepts any address inside
  /// it.
  std::vector<Extent> where(const void* pointer) const;
  /// The allocation, or the segment of a pool, that contains the address. Throws:
  /// Error{unknown_pointer}.
  AllocationInfo allocation(const void* pointer) const;
  /// All of them, by address. Not a snapshot: allocations that come or go meanwhile may be missing.
  std::vector<AllocationInfo> allocations() const;
  /// Usable bytes of the allocation; at least the requested size.
  std::size_t size(const void* pointer) const;

  /// Copies to or from host memory, wherever the bytes lie. Accepts any address inside an
  /// allocation. Excludes moves of the range. Ordered only after the caller's own synchronisation.
  /// `read` returns the saved bytes of a poisoned allocation.
  void read(const void* pointer, std::span<std::byte> out);
  void write(void* pointer, std::span<const std::byte> bytes);

  /// Throws: Error{unsupported} unless all the bytes lie at host nodes, and while a ReadOnly of the
  /// allocation exists.
  HostView host_view(void* pointer, std::size_t bytes);

  /// Fills the cache with chunks of `chunk_bytes` (0: the largest default) until it holds `bytes`
  /// of them at `where`. They count against no budget until they are used or trimmed. Throws:
  /// Error{out_of_memory}.
  void reserve(Place where, std::size_t bytes, std::size_t chunk_bytes = 0);
  /// Releases all cached memory at `where` to the driver. Returns the number of bytes.
  std::size_t trim(Place where);

  /// Limits the bytes that the runtime allocates at `where` from now on; SIZE_MAX means no limit.
  /// The initial value is `RuntimeOptions::capacity_bytes`. Applies to allocations, moves and
  /// `reserve`. Memory above the limit is kept, but nothing more is allocated until usage falls
  /// below it. Throws: Error{invalid_argument} for an unknown place.
  void set_capacity(Place where, std::size_t bytes);

  // --- The scheduler: exists only if a policy is configured. Without one, all of these except
  // `scheduler_stats` throw Error{unsupported}.

  /// Replaces the policy. Throws: Error{invalid_argument} with a list of the known policies.
  void set_policy(const std::string& policy);
  std::string policy() const;
  /// Stops deciding and starting moves; moves in progress finish.
  void pause_scheduler();
  void resume_scheduler();
  /// Collects reported uses and asks the policy once, immediately, even while paused. Moves start
  /// in the background. Blocks: while the policy decides.
  void step_scheduler();
  /// Moves everything away from `at` and lets nothing move there until `refill`; an `alloc` that
  /// names that place still succeeds. A chunk stays if it is pinned, if no attached stream may use
  /// it, or if no place that every GPU that uses it can reach has room. The place stays closed even
  /// if the drain leaves something behind. Throws: Error{busy} while the scheduler is paused.
  /// Blocks: until done, until the scheduler is paused, or until the deadline.
  DrainReport drain(Place at, const DrainOptions& options = {});
  void refill(Place at);
  /// Moves at least so many bytes away from a place, if so much may move and has room elsewhere,
  /// the coldest first, and releases them to the driver with what is cached there. Returns how many
  /// bytes have moved. Throws: Error{unsupported} without a scheduler. Blocks: for the moves.
  std::size_t make_room(Place at, std::size_t bytes);
  /// Readable lines: where the chunk that contains `pointer` lies, which GPUs use it, what was
  /// decided about it, and what prevents it from moving. Also throws Error{unknown_pointer}.
  std::vector<std::string> explain(const void* pointer) const;
  SchedulerStats scheduler_stats() const;

  Stream make_stream(Place gpu);
  void destroy_stream(Stream stream);
  void launch(Stream stream, const Kernel& kernel, Dim3 grid, Dim3 block,
              const KernelArguments& arguments);
  /// The same, and records `uses` after the kernel is enqueued.
  void launch_using(Stream stream, const Kernel& kernel, Dim3 grid, Dim3 block,
                    const KernelArguments& arguments, std::span<const Use> uses);
  /// The same, and records a use by the stream's GPU at every address of an allocation among the
  /// arguments, of unknown extent and direction (`Use::bytes`, `UseKind::unknown`). This is a
  /// guess, for callers that know nothing more precise; an integer that happens to equal such an
  /// address counts too.
  void launch_recorded(Stream stream, const Kernel& kernel, Dim3 grid, Dim3 block,
                       const KernelArguments& arguments);
  /// Records the uses that `launch_recorded` does, for a kernel that the program or a library has
  /// just launched itself on `device`. In a parameter that is a struct, every aligned word may be a
  /// pointer. For a kernel that was recorded before, this takes a fraction of a microsecond and no
  /// lock: its layout is cached, and the driver confirms that the kernel still has the last of the
  /// parameters.
  ///
  /// Requires: `function` is the CUfunction or CUkernel of the launch and has not been unloaded;
  /// `parameters` is its `kernelParams`; the thread has a current context, as it had for the
  /// launch. After a module or library was unloaded, its handles may be reused for other kernels:
  /// call `forget_kernels`. Otherwise a kernel that has the same last parameter is mistaken for the
  /// old one.
  ///
  /// Throws: Error{invalid_argument} for null, for a handle that the driver does not know, and for
  /// a device that is not a GPU of the runtime; {unsupported} if the driver cannot describe a
  /// kernel's parameters. Nothing is recorded then.
  void record_launch(const void* function, const void* const* parameters, Place device);
  /// The same for a launch whose `extra` passes one buffer with all parameters
  /// (CU_LAUNCH_PARAM_BUFFER_POINTER), as cuBLAS does. Also throws Error{invalid_argument} for a
  /// buffer that is shorter than the kernel's parameters.
  void record_launch(const void* function, std::span<const std::byte> block, Place device);
  /// Finds what `record_launch` would record, and records nothing: for work that is enqueued again
  /// and again, whose uses `record_uses` takes each time. Fills `out` as far as it goes and returns
  /// how many uses there are.
  std::size_t launch_uses(const void* function, const void* const* parameters, Place device,
                          std::span<Use> out);
  std::size_t launch_uses(const void* function, std::span<const std::byte> block, Place device,
                          std::span<Use> out);
  /// Call after `cuModuleUnload` or `cuLibraryUnload`: clears everything that `record_launch` has
  /// cached about kernels, for all runtimes of the process. The driver is then asked about each
  /// kernel once more. Under `vmart run` that happens by itself, and nothing has to be confirmed.
  void forget_kernels();
  void synchronize(Stream stream);

  /// All places for memory: GPUs first, then host nodes.
  std::vector<Place> places() const;
  RuntimeStats stats() const;
  /// "cuda 13.0, 2 x NVIDIA H200" or "simulated h200x2".
  std::string description() const;

  /// Measures what copies, accesses and moves cost between all places. Takes up to two seconds,
  /// plus the time to open contexts. Programs may keep running: calibration shares time and memory
  /// as `alloc` and `migrate` do, stops nothing, and releases its memory; but it and the running
  /// work slow each other down. A route that fails remains an estimate and is listed. Throws:
  /// Error{invalid_argument} for bad options; {unsupported} if nothing could be measured;
  /// {driver_gone}. Blocks: until done.
  Calibration calibrate(const CalibrateOptions& options = {});

  /// Ends the background work, writes and closes traces, recordings and decision logs, removes the
  /// control socket and frees everything. Synchronise first: it does not wait for kernels before it
  /// frees what they use. Idempotent; the destructor calls it. Later calls throw
  /// Error{driver_gone}. From a callback or hook it only logs an error. Blocks: while the driver
  /// closes contexts of the runtime's own, which waits for all work of their GPUs.
  ///
  /// A program need not call it: when the process exits (`exit`, return from main), stopped work
  /// continues, all files are written and the socket is removed; the driver reclaims the rest. Call
  /// it to free the memory earlier, or before ending by `_exit` or a signal, which write nothing.
  void shutdown() noexcept;

 private:
  friend RuntimeParts;
  explicit Runtime(std::unique_ptr<RuntimeParts> parts) noexcept;
  std::unique_ptr<RuntimeParts> parts_;
};

/// Keeps a stream attached while this object exists. Movable, not copyable.
class VMART_EXPORT AttachedStream {
 public:
  /// To the process-wide runtime. Throws: what `Runtime::attach` throws.
  explicit AttachedStream(Stream stream, StreamWork work = StreamWork::any);
  AttachedStream(Stream stream, void* pointer, StreamWork work = StreamWork::any);
  AttachedStream(Runtime& runtime, Stream stream, void* pointer = nullptr,
                 StreamWork work = StreamWork::any);
  AttachedStream(AttachedStream&& other) noexcept;
  AttachedStream& operator=(AttachedStream&& other) noexcept;
  ~AttachedStream();

 private:
  void detach() noexcept;
  Runtime* runtime_ = nullptr;  // Null once moved from.
  Stream stream_ = nullptr;
  void* pointer_ = nullptr;
};

}  // namespace vma::inline v1
