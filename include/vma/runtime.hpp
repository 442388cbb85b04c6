#pragma once

#include <vma/calibration.hpp>
#include <vma/device.hpp>
#include <vma/error.hpp>
#include <vma/export.hpp>
#include <vma/gpu_load.hpp>
#include <vma/location.hpp>
#include <vma/migration.hpp>
#include <vma/policy.hpp>
#include <vma/scheduler.hpp>
#include <vma/telemetry.hpp>
#include <vma/park.hpp>

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vma {
struct RuntimeParts;  // Internal.
}

namespace vma::inline v1 {

struct AllocOptions {
  /// Bytes of one chunk, the unit that moves; rounded up to the allocation granularity (2 MiB on
  /// GPUs), at most 256 MiB. 0 lets the runtime choose:
  ///
  ///   bytes asked for    on a GPU             at a host node
  ///   up to 32 MiB       one chunk            one chunk
  ///   up to 256 MiB      one chunk            chunks of 32 MiB
  ///   below 512 MiB      chunks of 64 MiB     chunks of 32 MiB
  ///   below 1 GiB        chunks of 128 MiB    chunks of 32 MiB
  ///   from 1 GiB on      chunks of 256 MiB    chunks of 32 MiB
  ///
  /// A chunk moves whole, even if only a part of it is asked for: set this where smaller parts are
  /// to move. Each chunk costs a stop when it moves, so small ones cost more for the same bytes.
  std::size_t chunk_bytes = 0;
  /// Names the allocation in logs, `where` listings and errors.
  std::string tag;
  /// Filled with zeros; otherwise the contents are undefined.
  bool zeroed = false;
  /// False forbids every move: `migrate` throws Error{pinned}.
  bool movable = true;
};

/// How a runtime is opened. An empty field is read from the environment variable that its comment
/// names, then takes the default.
struct RuntimeOptions {
  /// "cuda", "sim:NAME" or "sim:FILE.json" (VMART_DRIVER). Default: cuda; where there is no GPU the
  /// runtime refuses to open, and never simulates unasked.
  std::string driver;
  /// The GPUs that memory may lie on and be granted to, CUDA ordinals (VMART_DEVICES="0,1").
  /// Default: all.
  std::vector<int> devices;
  /// Most bytes that the runtime takes at a location (VMART_CAPACITY="gpu0=4GiB,host0=64GiB").
  std::map<Location, std::size_t> capacity_bytes;
  /// Bytes of released chunks kept for reuse on each GPU (VMART_CACHE_BYTES_PER_GPU). 512 MiB.
  std::optional<std::size_t> cache_bytes_per_gpu;
  /// The same on each host node (VMART_HOST_CACHE_BYTES). 1 GiB.
  std::optional<std::size_t> host_cache_bytes;
  /// How long held work may take to come to rest before a synchronous call ends in `busy`
  /// (VMART_HOLD_LIMIT_MS). 2 s.
  std::optional<std::chrono::milliseconds> hold_limit;
  /// How long the first stream that stops at a gate may wait for the others, and how long all of
  /// them may then wait for what changed to be copied again, before the gate opens and the move
  /// tries again later (VMART_GATE_LIMIT_US). A value set here is a ceiling: no try exceeds it. Not
  /// set: tries start with 5 ms; each one that runs out of time doubles the limit for the
  /// rest of its migration, up to 80 ms, so that streams whose backlogs differ by tens of
  /// milliseconds can be brought together. `MigrationReport::gate_limit` has the widest limit that
  /// was used. A gate under which the whole chunk is copied (`Mode::stopped`) has the time for that
  /// besides.
  std::optional<std::chrono::microseconds> gate_limit;
  /// How often a chunk's gate is tried again before the move ends in `busy` (VMART_GATE_RETRIES).
  /// 8.
  std::optional<int> gate_retries;
  /// How long, of each second, attached streams may be kept standing (VMART_STALL_BUDGET_US, 0 for
  /// no limit). 60 ms. Zero in this field is refused: a move that may stop nothing cannot be made.
  std::optional<std::chrono::microseconds> stall_budget;
  /// Bytes that live and background moves copy in a second (VMART_COPY_BUDGET, 0 for no limit). No
  /// limit.
  std::optional<std::size_t> copy_budget_bytes;
  /// How long an allocation or a move to a GPU that finds no room waits while chunks that attached
  /// streams may use are moved out of the way, the coldest first, before it ends in `out_of_memory`
  /// (VMART_PRESSURE_LIMIT_MS, 0 to move nothing). 2 s.
  std::optional<std::chrono::milliseconds> pressure_limit;

  /// The policy that decides in the background what lies where, "name:parameter=value,..."
  /// (VMART_POLICY). Default: none, and memory moves when it is told to.
  std::string policy;
  /// Policies of the program's own, which `policy` and `set_policy` know by name beside the
  /// built-in ones. `make` is called anew when one did not answer and another takes its place; on
  /// any thread.
  std::vector<PolicyKind> policies;
  /// How often it is asked (VMART_TICK_US). 10 ms.
  std::optional<std::chrono::microseconds> tick;
  /// After which a use counts half; the long average has ten of it (VMART_HALF_LIFE_MS). 1 s.
  std::optional<std::chrono::milliseconds> half_life;
  /// It decides, and nothing moves (VMART_DRY_RUN=1).
  bool dry_run = false;

  /// Where `vmart status` and others of the user's processes can look at the runtime and steer it:
  /// a path, or "auto" (VMART_CONTROL). Default: nowhere. Where no policy is named, `stay_put`
  /// decides then, which moves nothing by itself.
  std::string control;
  /// A file that moves, stalls and decisions are drawn in, for Perfetto (VMART_TRACE). Default:
  /// none. "%p" in it becomes the process's number. Where no policy is named, as for `control`.
  std::string trace;
};

/// What the runtime has and what it could not give back.
struct RuntimeStats {
  struct Place {
    Location at;
    /// Most that the runtime may take: the capacity that was set or, if that is less or none was
    /// set, all memory of the place. 0 where the machine does not say how much that is.
    std::size_t capacity_bytes = 0;
    std::size_t allocated_bytes = 0;  ///< Behind users' pointers, whole chunks.
    std::size_t cached_bytes = 0;
    std::size_t own_bytes = 0;     ///< Keepers, digests, what is held back for page tables.
    std::size_t leaked_bytes = 0;  ///< That the driver would not take back, or may still write to.
    std::size_t copies_bytes = 0;  ///< Of clean copies: given back as soon as they are wanted.
  };
  std::vector<Place> places;
  std::size_t allocations = 0;
  std::size_t poisoned = 0;
  std::size_t parked = 0;         ///< Allocations with chunks that `park` has taken out of HBM.
  std::size_t dropped_bytes = 0;  ///< Of these: that have no memory until they are resumed.
  std::size_t leaked = 0;         ///< Driver objects whose release failed; logged when it happened.
  std::size_t migrations = 0;
  std::size_t bytes_moved = 0;
  std::size_t bytes_copied_twice = 0;
  std::size_t copies_kept = 0;       ///< Chunks that left a clean copy behind.
  std::size_t copies_used = 0;       ///< Of them, those that a chunk came back to.
  std::size_t copies_dropped = 0;    ///< Of them, those that went for want of room, or went stale.
  std::size_t bytes_remapped = 0;    ///< Of `bytes_moved`, those that a clean copy held.
  std::size_t gates = 0;             ///< That all streams arrived at.
  std::size_t gates_given_up = 0;    ///< Opened before the chunk was switched.
  std::size_t callbacks_failed = 0;  ///< Callbacks and hooks that threw.
  std::map<std::string, std::size_t> reasons;  ///< Why gates were given up.
  DurationSummary skew, stall;                 ///< Of all gates.
  GpuLoads loads;                              ///< Where NVML is there; see VMART_NVML.
};

/// Lets the CPU load and store the bytes of an allocation that lie at host nodes, through the same
/// pointer. The chunks stay where they are while a view of them lives: `migrate` throws
/// Error{pinned}. Movable, not copyable; the destructor takes the access back.
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

/// Keeps an allocation where it is while it lives. Movable, not copyable.
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

/// Nobody may write to an allocation while it lives: every device's access is read-only, so that a
/// write is an illegal address, loudly. Its chunks need no second look when they move live.
/// Movable, not copyable; the destructor grants writing again.
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

/// Hooks of an allocation, registered while it lives. Movable, not copyable.
class VMART_EXPORT MoveHookRegistration {
 public:
  MoveHookRegistration(MoveHookRegistration&&) noexcept;
  MoveHookRegistration& operator=(MoveHookRegistration&&) noexcept;
  /// Blocks while one of the hooks runs on another thread.
  ~MoveHookRegistration();

 private:
  friend class Runtime;
  struct State;
  explicit MoveHookRegistration(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// One machine's memory, and all that was allocated from it.
///
/// All members may be called from any thread at once. Every call leaves the caller's current CUDA
/// context as it was. One runtime on CUDA a process, any number of simulated ones; the free
/// functions of <vma/vma.hpp> act on a process-wide one that opens at first use.
class VMART_EXPORT Runtime {
 public:
  /// Throws: Error{no_driver, unsupported, invalid_argument}. Blocks: in the driver, a second or
  /// more where this is the process's first use of CUDA.
  explicit Runtime(const RuntimeOptions& options = {});
  /// Shuts down. Pointers that are still allocated become invalid.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// At least `bytes` (> 0), rounded up to chunks, on the GPU of the caller's current context, else
  /// on the first. Usable on return by every device that can reach the memory.
  /// Throws: Error{out_of_memory, invalid_argument}. Blocks: for memory.
  void* alloc(std::size_t bytes, const AllocOptions& options = {});
  /// The same at `where`. Throws besides: Error{invalid_argument} for an unknown location.
  void* alloc(std::size_t bytes, Location where, const AllocOptions& options = {});
  /// The same for memory that the GPUs of `readers` use: refused with Error{unreachable} if one of
  /// them cannot reach `where`, and moved by the runtime's own choice only to where all can.
  /// Without readers that is where every GPU that reaches `where` can.
  void* alloc(std::size_t bytes, Location where, std::span<const Location> readers,
              const AllocOptions& options = {});

  /// Waits, like cudaFree, for the work submitted before in every context in use, then takes the
  /// memory back. Null is allowed and does nothing. Throws: Error{unknown_pointer} for anything
  /// that `alloc` did not return or that was freed. Ends no capture. Launches of other threads may
  /// block until it returns.
  void free(void* pointer);
  /// Gives the memory back after the work now enqueued on `stream`. Does not block. Throws:
  /// Error{invalid_argument} while `stream` captures.
  void free_async(void* pointer, Stream stream);

  /// Moves the whole allocation, keeping its address. With `options.scope` attached it is
  /// `migrate_async` and a wait. Otherwise it holds every context in use: all work
  /// submitted before has finished when bytes move, later work waits until they have.
  /// Throws: Error{busy} if that work did not come to rest, or was let go because a driver call
  /// stood too long; {out_of_memory}, {pinned}, {poisoned}, {unsupported}, {driver_failure}. Chunks
  /// that had moved stay moved; `report()` says which did not.
  /// Blocks: until done. Throws {unsupported} while an attached stream captures, or a blocking one;
  /// a hold ends the captures of all others, and one that begins just then.
  MigrationReport migrate(void* pointer, Location to, const MigrateOptions& options = {});
  /// The same for `bytes` from `offset` of the allocation that starts at `pointer`. Whole chunks
  /// move: the range is rounded out to them, and the report's `offset` and `bytes_asked` say to
  /// what. See `AllocOptions::chunk_bytes`.
  MigrationReport migrate(void* pointer, std::size_t offset, std::size_t bytes, Location to,
                          const MigrateOptions& options = {});

  /// The same in the background, stopping the attached streams only, for a fraction of a
  /// millisecond a chunk; returns at once. Throws: Error{invalid_argument} for bad arguments, and
  /// where no stream is attached that may use the allocation and `options.scope` is not `hold`;
  /// {pinned}, {poisoned}, {unknown_pointer}. All else is the Migration's.
  Migration migrate_async(void* pointer, Location to, const MigrateOptions& options = {});
  Migration migrate_async(void* pointer, std::size_t offset, std::size_t bytes, Location to,
                          const MigrateOptions& options = {});

  /// Moves what lies in HBM of every allocation with the tag to host memory and gives that HBM back
  /// to the driver; addresses stay, and work that runs meanwhile goes on as with `migrate`. The
  /// host memory is made before anything is stopped, and kept for the next time. What may not
  /// move, or could not, stays and is reported; a second call tries it again. A parked allocation
  /// may be used, moved and freed as any other.
  /// With `ParkContents::drop` no byte is moved: what lies in HBM, or was parked before, has no
  /// memory afterwards, only its address. Work submitted before has finished by then; work that
  /// uses it afterwards faults as on an address that was never mapped, which ends the context.
  /// Until `resume` it can only be freed: `read`, `write`, `migrate`, `pin`, `host_view` and
  /// `note_export` throw Error{dropped}. What lies at host nodes by itself keeps its bytes.
  /// Throws: Error{invalid_argument} for an empty tag, or one that no allocation has; {unsupported}
  /// for dropping at gates (`StopScope::attached`). Blocks: until done. Not from a hook. What
  /// is stopped by a hold ends captures as `migrate` says.
  ParkReport park(const std::string& tag, const ParkOptions& options = {});
  /// Brings every chunk that is parked by the tag back to the GPU that it came from or, where that
  /// has no room, to another one that has and that every GPU that may use the chunk can reach. A
  /// chunk that was moved to HBM since stays there. What found no
  /// room anywhere, which is made as for an allocation, is reported and stays parked; a second call
  /// tries it again. A chunk whose contents were dropped comes back as zeros, and stops nothing.
  /// Throws: Error{invalid_argument} where nothing is parked by the tag. Blocks: as `park`.
  ParkReport resume(const std::string& tag, const ParkOptions& options = {});
  bool is_parked(const std::string& tag) const;

  /// Names a stream whose work uses memory of this runtime, or of one allocation of it: moves in
  /// the background stop it at a gate while a chunk is switched. Work on streams that are not
  /// attached must not touch a range that moves. A created stream, the legacy one (null or
  /// cudaStreamLegacy) or cudaStreamPerThread; where the legacy stream or several blocking ones
  /// of a context are attached, all blocking streams of it may be stopped. A stream must be
  /// detached before it is destroyed: what the driver does with a destroyed one is undefined, and a
  /// new stream with its handle counts as attached. `work` says whether graphs are launched on it:
  /// `no_graphs` where they are loses writes, see StreamWork. Costs a launch nothing. Never
  /// synchronises. Legal at any time from any thread, also while the stream captures: no capture is
  /// ended by it, by `detach`, or by a move at gates. Blocks: while a move switches a chunk; a move
  /// that was interrupted twice by streams that came or went makes `attach` and `detach` wait for
  /// its next try, whose streams have a quarter of a second to stop. Throws:
  /// Error{invalid_argument} for a stream that is attached so already, is of a GPU that the runtime
  /// does not have, or that the driver does not know.
  void attach(Stream stream, StreamWork work = StreamWork::any);
  void attach(Stream stream, void* pointer, StreamWork work = StreamWork::any);
  /// Once it has returned, the runtime does nothing with the stream any more, which may be
  /// destroyed. Throws: Error{invalid_argument} for a stream that is not attached so. Blocks: while
  /// a move stops the stream, which it gives up where not all streams stand yet, twice for a chunk;
  /// not for what the stream has to do, unless the driver keeps the move's own call waiting.
  void detach(Stream stream);
  void detach(Stream stream, void* pointer);

  /// Forbids moves while the Pin lives: those under way end at the next chunk border, or wait if
  /// they were asked to. Blocks: until no chunk of it is being switched.
  Pin pin(void* pointer);
  /// Blocks: as `pin`. Throws: Error{pinned} while a HostView of it lives.
  ReadOnly read_only(void* pointer);
  /// A hook must not free or move the allocation, which is refused, nor wait for another migration:
  /// the move waits for the hook.
  MoveHookRegistration on_move(void* pointer, MoveHooks hooks);
  /// The caller hands the memory to something that names physical memory (an IPC handle, a dma-buf,
  /// a registration). It does not move any more until a hook is registered.
  void note_export(void* pointer);

  /// Work on `device` uses `bytes` from `address` on: see <vma/telemetry.hpp>. Nanoseconds; never
  /// blocks. Does nothing after shutdown.
  void record_use(const void* address, std::size_t bytes, Location device,
                  UseKind kind = UseKind::read) noexcept;
  void record_uses(std::span<const Use> uses) noexcept;
  /// What will be used, and when. Throws: Error{unknown_pointer}; {invalid_argument} for a range
  /// that is not within one allocation, a device that is no GPU of the runtime, a time that is past
  /// and a number of passes that is none. Does not block.
  void advise(const void* address, std::size_t bytes, const Hint& hint);

  /// Where the bytes of the allocation lie, in order. Any address inside it will do.
  std::vector<Extent> where(const void* pointer) const;
  /// Usable bytes of the allocation, at least what was asked for.
  std::size_t size(const void* pointer) const;

  /// Copies to or from host memory, wherever the bytes lie; any address inside an allocation.
  /// Excludes moves of the range; ordered after the caller's own synchronisation, nothing else.
  /// `read` serves the saved bytes of a poisoned allocation.
  void read(const void* pointer, std::span<std::byte> out);
  void write(void* pointer, std::span<const std::byte> bytes);

  /// Throws: Error{unsupported} unless all the bytes lie at host nodes, and while a ReadOnly of it
  /// lives.
  HostView host_view(void* pointer, std::size_t bytes);

  /// Fills the cache with chunks of `chunk_bytes` (0: the largest default) until `bytes` of them
  /// lie ready at `where`; they count against no budget until used or trimmed.
  /// Throws: Error{out_of_memory}.
  void reserve(Location where, std::size_t bytes, std::size_t chunk_bytes = 0);
  /// Gives all cached memory at `where` back to the driver. Returns the bytes.
  std::size_t trim(Location where);

  /// Most bytes that the runtime takes at `where` from now on, SIZE_MAX for no limit; what
  /// `RuntimeOptions::capacity_bytes` says at first. Binds allocations, moves and `reserve` alike.
  /// Memory above the limit is kept, but nothing more is allocated until usage falls below it.
  /// Throws: Error{invalid_argument} for an unknown location.
  void set_capacity(Location where, std::size_t bytes);

  // --- The scheduler: exists only when `RuntimeOptions::policy` names a policy. Without one all of
  // these but `scheduler_stats` throw Error{unsupported}.

  /// Another policy decides from now on. Throws: Error{invalid_argument} that lists what is known.
  void set_policy(const std::string& policy);
  std::string policy() const;
  /// Nothing is decided and no move is started; those under way end.
  void pause_scheduler();
  void resume_scheduler();
  /// Looks at what was reported and asks the policy once, now, paused or not; moves start in the
  /// background. Blocks: while the policy decides.
  void step_scheduler();
  /// Moves everything away from `at` and lets nothing come there until `refill`; `alloc` at that
  /// place still goes there. What is pinned, or in no attached stream's scope, stays, and so does
  /// what finds no room where every GPU that uses it can reach it. A drain that leaves something
  /// behind keeps the place closed too. Throws: Error{busy} while the scheduler is paused. Blocks:
  /// until it is done, the scheduler is paused, or the deadline has passed.
  DrainReport drain(Location at, const DrainOptions& options = {});
  void refill(Location at);
  /// Lines for people: where the chunk around `pointer` lies, who uses it, what was decided about
  /// it and what keeps it where it is. Throws besides: Error{unknown_pointer}.
  std::vector<std::string> explain(const void* pointer) const;
  SchedulerStats scheduler_stats() const;

  Stream make_stream(Location gpu);
  void destroy_stream(Stream stream);
  void launch(Stream stream, const Kernel& kernel, Dim3 grid, Dim3 block,
              const KernelArguments& arguments);
  /// The same; once it is enqueued, `uses` are recorded.
  void launch_using(Stream stream, const Kernel& kernel, Dim3 grid, Dim3 block,
                    const KernelArguments& arguments, std::span<const Use> uses);
  /// The same with a use of every allocation that an argument points into: read and written, all of
  /// it, once, by the stream's GPU. A guess, for callers that know no better; a number that
  /// happens to be such an address counts too.
  void launch_recorded(Stream stream, const Kernel& kernel, Dim3 grid, Dim3 block,
                       const KernelArguments& arguments);
  /// For a kernel that the program, or a library that it uses, has just launched by itself on
  /// `device`. Records the uses that `launch_recorded` does; in a parameter that is a struct, every
  /// aligned word may be a pointer. Takes a fraction of a microsecond for a kernel that was
  /// recorded before, and no lock: its layout is cached, and the driver confirms that the kernel
  /// still has the last of the parameters. Requires: `function` is what the launch was given, a
  /// CUfunction or a CUkernel, and has not been unloaded; `parameters` is its `kernelParams`; the
  /// thread has a current context, as it had for the launch. After a module or library was
  /// unloaded, its handles may come back for other kernels: call `forget_kernels`. Otherwise a
  /// kernel that has the same last parameter is taken for the old one. Throws:
  /// Error{invalid_argument} for null, for a handle that the driver does not know, and for a device
  /// that is no GPU of the runtime; {unsupported} where the driver cannot tell a kernel's
  /// parameters. Then nothing is recorded.
  void record_launch(const void* function, const void* const* parameters, Location device);
  /// The same for a launch whose `extra` names one block with all parameters in their places
  /// (CU_LAUNCH_PARAM_BUFFER_POINTER), as cuBLAS launches. Throws: also Error{invalid_argument} for
  /// a block that is shorter than the kernel's parameters.
  void record_launch(const void* function, std::span<const std::byte> block, Location device);
  /// After `cuModuleUnload` or `cuLibraryUnload`: drops what `record_launch` has kept of kernels,
  /// all of it. Each kernel is then asked about once more.
  void forget_kernels();
  void synchronize(Stream stream);

  /// The locations that memory can lie in: GPUs first, then host nodes.
  std::vector<Location> locations() const;
  RuntimeStats stats() const;
  /// "cuda 13.0, 2 x NVIDIA H200" or "simulated h200x2".
  std::string description() const;

  /// Measures what copies, accesses and moves cost between all places: up to two seconds, besides
  /// opening contexts. Programs may run meanwhile: it takes its turns and its memory as `alloc` and
  /// `migrate` do, stops nothing, and gives the memory back; but what runs beside it, and it
  /// itself, is slower by what they share. A route that fails stays an estimate and is named.
  /// Throws: Error{invalid_argument} for bad options; {unsupported} where nothing at all could be
  /// measured; {driver_gone}. Blocks: for all of it.
  Calibration calibrate(const CalibrateOptions& options = {});

  /// Ends the background work, writes and closes traces, recordings and decisions, removes the
  /// control socket and gives everything back. Does not wait for kernels that use the memory:
  /// synchronise first. Idempotent; the destructor calls it.
  /// Later calls throw Error{driver_gone}. From a callback or hook it does nothing but log.
  ///
  /// A program need not call it: when the process exits (`exit`, the return from main), stopped
  /// work goes on, all files are written and the socket is removed; the driver takes the rest back.
  /// It is for programs that want the memory back sooner, and for those that end by `_exit` or a
  /// signal, which write nothing.
  void shutdown() noexcept;

 private:
  friend RuntimeParts;
  explicit Runtime(std::unique_ptr<RuntimeParts> parts) noexcept;
  std::unique_ptr<RuntimeParts> parts_;
};

/// Attaches a stream for as long as it lives. Movable, not copyable.
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
