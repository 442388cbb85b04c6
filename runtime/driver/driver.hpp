#pragma once

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/ids.hpp"

#include <vma/device.hpp>
#include <vma/place.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace vma {

enum class Access { none, read, read_write };

/// Access rights of one party; one entry of a grant. A host location means the CPU.
struct Accessor {
  Place who;
  Access access = Access::read_write;
};

struct DeviceInfo {
  std::string name;
  std::string uuid;  ///< Such as "GPU-...", as nvidia-smi prints it.
  std::string pci_bus_id;
  std::uint64_t memory_bytes = 0;
  int multiprocessors = 0;
  int compute_capability = 0;  ///< 90 for 9.0.
  int host_node = 0;           ///< NUMA node closest to the device.
  int copy_engines = 0;
  int max_queues = 0;  ///< Hardware queues of a context; see CUDA_DEVICE_MAX_CONNECTIONS.
  bool vmm = true;     ///< Supports the virtual memory calls.
  bool mig = false;    ///< A MIG slice, which has no peers.
  /// Its atomics on host memory are also atomic for other GPUs and the CPU. False over PCIe, where
  /// concurrent additions of two GPUs to one word can get lost.
  bool host_atomics = false;
};

struct LinkInfo {
  LinkKind kind = LinkKind::none;
  bool native_atomics = false;
  int performance_rank = 0;  ///< Lower is faster, as the driver ranks it.
};

/// How the memory of a chunk can leave the process. Fixed when the chunk is created.
struct ExportTypes {
  bool descriptor = false;  ///< As a POSIX file descriptor; see `export_chunk`.
  bool fabric = false;      ///< As a fabric handle, which needs IMEX; other libraries export it.
  bool rdma = false;        ///< Network cards may access it (gpuDirectRDMACapable).
  bool any() const { return descriptor || fabric || rdma; }
  bool includes(const ExportTypes& other) const { return (*this & other) == other; }
  friend ExportTypes operator&(const ExportTypes& a, const ExportTypes& b) {
    return {a.descriptor && b.descriptor, a.fabric && b.fabric, a.rdma && b.rdma};
  }
  friend ExportTypes operator-(const ExportTypes& a, const ExportTypes& b) {
    return a & ExportTypes{!b.descriptor, !b.fabric, !b.rdma};
  }
  friend ExportTypes operator|(const ExportTypes& a, const ExportTypes& b) {
    return {a.descriptor || b.descriptor, a.fabric || b.fabric, a.rdma || b.rdma};
  }
  friend bool operator==(const ExportTypes&, const ExportTypes&) = default;
};

struct PointerInfo {
  Place at;
  std::uint64_t buffer_id = 0;  ///< Changes whenever the mapping at the address changes.
  bool has_context = false;     ///< False for memory of `create`.
};

struct AddressRange {
  Address begin{};
  std::uint64_t size_bytes = 0;
};

/// A stream and its context. `handle` zero is the context's legacy stream.
struct BoundStream {
  ContextHandle context{};
  StreamHandle handle{};
};

/// What a stream is at this moment.
struct StreamNow {
  std::uint64_t id = 0;  ///< As `stream_id` answers; 0 while it captures.
  std::uint64_t capture =
      0;  ///< Names the capture that it takes part in, in this process; 0: none.
};

enum class StreamKind {
  blocking,
  non_blocking,
  /// Non-blocking, and its kernels get free multiprocessors before those of other streams.
  urgent,
};
enum class CaptureMode { global, thread_local_mode, relaxed };

/// One operation of `batch`, on a 64-bit word that the device can access.
struct WordOperation {
  enum class Kind { write, wait_until_at_least };
  Kind kind = Kind::write;
  Address word{};
  std::uint64_t value = 0;
};

/// One step of a chain: a batch of word operations, or a kernel if there are none.
struct ChainStep {
  std::vector<WordOperation> words;
  KernelHandle kernel{};
  LaunchShape shape;
  KernelArguments arguments;
};

/// Position of one kernel parameter.
struct ParameterInfo {
  std::size_t offset_bytes = 0;
  std::size_t size_bytes = 0;
  friend bool operator==(const ParameterInfo&, const ParameterInfo&) = default;
};

/// The parameters of a kernel in order, and the kind of its handle.
struct KernelParameters {
  std::vector<ParameterInfo> list;
  bool of_library = false;  ///< A CUkernel of a library; otherwise a CUfunction of a module.
};

/// What the runtime needs from a machine: the CUDA driver's virtual memory, stream and context
/// calls, in general terms. `CudaDriver` is a real machine, `SimDriver` a simulated one; decorators
/// wrap either.
///
/// A third driver would have to promise:
/// - any thread may make any call at any time; no call changes the caller's current context unless
///   it says so; every call works whatever context is current;
/// - every failure throws vma::Error that names the driver's own call and code, and has changed
///   nothing;
/// - a returned handle stays valid until its own release call, whatever else fails;
/// - `map`, `unmap` and `grant` take effect before they return and wait for no kernel, so the
///   caller is responsible for work that may touch the range.
/// Sizes are bytes and multiples of the granularity unless said otherwise.
class Driver {
 public:
  virtual ~Driver() = default;

  // --- Properties. These cannot fail.
  /// Such as "CUDA 13.0, driver 580.159.04" or "simulated h200x2".
  virtual std::string description() const = 0;
  virtual bool simulated() const = 0;
  virtual int device_count() const = 0;
  /// Whether `record_context` and `hold_context` are supported.
  virtual bool has_context_hold() const = 0;
  /// Whether calls in a green context return while another thread frees memory of its device
  /// behind stopped work, as they do in a context of `create_context`.
  virtual bool green_contexts_are_apart() const = 0;
  virtual Clock& clock() = 0;
  virtual Executor& executor() = 0;

  // --- The machine
  virtual DeviceInfo device_info(DeviceId device) = 0;
  /// Whether kernels on `from` can access memory of `to`. True if both are the same.
  virtual bool can_access_peer(DeviceId from, DeviceId to) = 0;
  virtual LinkInfo link_info(DeviceId from, DeviceId to) = 0;
  virtual int host_node_count() = 0;
  virtual std::uint64_t granularity(Place at) = 0;
  /// Free HBM now. Opens no context: returns 0 unless a context is active on the device.
  virtual std::uint64_t free_bytes(DeviceId device) = 0;

  // --- Virtual memory
  /// `alignment` 0 selects the granularity.
  virtual Address reserve(std::uint64_t size_bytes, std::uint64_t alignment) = 0;
  virtual void unreserve(Address begin, std::uint64_t size_bytes) = 0;
  virtual ChunkHandle create(Place at, std::uint64_t size_bytes) = 0;
  /// What `create_exportable` accepts there by the driver's own answer. It may still refuse a type
  /// with Error{unsupported}, such as fabric without IMEX. Cannot fail.
  virtual ExportTypes export_types(Place at) = 0;
  /// Like `create`, for a chunk that can leave the process in these ways.
  virtual ChunkHandle create_exportable(Place at, std::uint64_t size_bytes, ExportTypes types) = 0;
  /// A descriptor of the chunk's memory, which the caller closes; it may be passed to other
  /// processes. The memory lives on while the descriptor is open anywhere. Throws:
  /// Error{unsupported, invalid_argument} for a chunk without `ExportTypes::descriptor`.
  virtual int export_chunk(ChunkHandle chunk) = 0;
  /// The chunk behind a descriptor of `export_chunk`, of this or another process. It is the same
  /// memory, lives on without the exporter, and needs its own release. The descriptor stays the
  /// caller's.
  virtual ChunkHandle import_chunk(int descriptor) = 0;
  /// The memory lives on as long as a mapping shows it.
  virtual void release(ChunkHandle chunk) = 0;
  /// Maps the whole chunk. A fresh mapping grants no access.
  virtual void map(Address begin, std::uint64_t size_bytes, ChunkHandle chunk) = 0;
  /// Requires: the range consists of one or more whole mappings.
  virtual void unmap(Address begin, std::uint64_t size_bytes) = 0;
  /// Adds or changes the rights of each accessor to one or more whole mappings. Other accessors
  /// keep theirs.
  virtual void grant(Address begin, std::uint64_t size_bytes,
                     std::span<const Accessor> accessors) = 0;
  virtual Access access(Address address, Place who) = 0;
  /// The chunk mapped at the address. The returned handle needs its own release.
  virtual ChunkHandle retain_handle(Address address) = 0;
  /// The mapping around the address.
  virtual AddressRange address_range(Address address) = 0;
  virtual PointerInfo pointer_info(Address address) = 0;

  // --- Contexts
  /// Whether the device's primary context is active. Does not open it.
  virtual bool context_active(DeviceId device) = 0;
  /// Opens the context if needed, which takes a second and hundreds of MiB of HBM on a real GPU.
  virtual ContextHandle retain_primary(DeviceId device) = 0;
  virtual void release_primary(DeviceId device) = 0;
  virtual ContextHandle create_context(DeviceId device) = 0;
  /// A context that shares the device's primary one, on at least so many multiprocessors of its
  /// own: it takes a hundredth of the time and memory of `create_context`. The primary context is
  /// opened if needed, and stays active until the green one is destroyed. What holds or records
  /// the primary context also holds or records its green ones. All streams are non-blocking.
  /// Requires: one thread at a time uses it. Throws: Error{unsupported} if the driver has none.
  virtual ContextHandle create_green_context(DeviceId device, int multiprocessors) = 0;
  /// A context whose work goes on while that of all others is suspended. It takes as little memory
  /// as a context can: its kernels have no local memory to speak of. Slow: tenths of a second.
  virtual ContextHandle create_own_context(DeviceId device) = 0;
  virtual void destroy_context(ContextHandle context) = 0;
  /// The context of the calling thread; zero for none.
  virtual ContextHandle current_context() = 0;
  virtual void set_current_context(ContextHandle context) = 0;
  virtual DeviceId context_device(ContextHandle context) = 0;
  /// Unique in the process; a reused handle has a different id.
  virtual std::uint64_t context_id(ContextHandle context) = 0;
  /// Blocks until all work that is now in the context has finished. Ends no capture. Launches by
  /// other threads may block until then; context switches do not. Throws: the error of the work, if
  /// it failed.
  virtual void synchronize_context(ContextHandle context) = 0;
  /// `event` completes once all work that is now in the context has finished. If a stream of the
  /// context captures, the call fails and ends the capture; so does `hold_context`. Requires:
  /// `event` belongs to the context.
  virtual void record_context(ContextHandle context, EventHandle event) = 0;
  /// All work submitted to the context from now on waits for `event`, which may belong to another
  /// context.
  virtual void hold_context(ContextHandle context, EventHandle event) = 0;

  // --- Streams and events
  virtual BoundStream create_stream(ContextHandle context, StreamKind kind) = 0;
  virtual void destroy_stream(BoundStream stream) = 0;
  /// While a stream captures, every query about it except `stream_context` and `is_capturing` is
  /// refused and ends the capture, from any thread. The same holds for the legacy stream while a
  /// blocking stream of its context captures. So make no other query about a stream that the
  /// program may capture. For a built-in stream, returns the caller's current context, or any
  /// context if the caller has none.
  virtual ContextHandle stream_context(StreamHandle stream) = 0;
  /// Unique in the process; a reused handle has a different id. Ends captures.
  virtual std::uint64_t stream_id(BoundStream stream) = 0;
  /// Legacy and per-thread streams are blocking; the result is never `urgent`. Ends captures.
  virtual StreamKind stream_kind(BoundStream stream) = 0;
  virtual bool is_capturing(BoundStream stream) = 0;
  /// Takes tens of nanoseconds. Needs no context; a built-in stream is that of the caller's current
  /// one. Ends no capture, unless one begins on this stream at the same moment. `id` is that of the
  /// stream if the caller knows it, otherwise 0; it takes less time then. Throws: for the legacy
  /// stream while a blocking stream of its context captures.
  virtual StreamNow stream_now(StreamHandle stream, std::uint64_t id) = 0;
  /// True once everything enqueued has finished. Throws: the error of that work, if it failed. Ends
  /// captures.
  virtual bool query_stream(BoundStream stream) = 0;
  /// Blocks. Returns false if `deadline` of `clock()` passed first. Throws: the error of the work,
  /// if it failed. Ends captures.
  virtual bool wait_stream(BoundStream stream, TimePoint deadline) = 0;
  virtual void stream_wait_event(BoundStream stream, EventHandle event) = 0;
  virtual EventHandle create_event(ContextHandle context) = 0;
  virtual void destroy_event(EventHandle event) = 0;
  /// If the stream captures, so is the event; querying it then is refused and ends the capture.
  virtual void record(EventHandle event, BoundStream stream) = 0;
  virtual bool query_event(EventHandle event) = 0;
  virtual bool wait_event(EventHandle event, TimePoint deadline) = 0;

  // --- Work
  /// Enqueues the operations in order, without other threads' work between them. But see `stop`.
  virtual void batch(BoundStream stream, std::span<const WordOperation> operations) = 0;
  /// Both ranges may be chunks, pinned or pageable host memory. Pageable memory blocks.
  virtual void copy(BoundStream stream, Address target, Address source,
                    std::uint64_t size_bytes) = 0;
  virtual void fill(BoundStream stream, Address begin, std::byte value,
                    std::uint64_t size_bytes) = 0;
  virtual KernelHandle load_kernel(ContextHandle context, const Kernel& kernel) = 0;
  /// Loads kernels of one text in the time of one load; each is unloaded by itself. `image` is that
  /// text compiled for some GPUs, as words of a fat binary; empty, or of no use to this driver, the
  /// text is compiled. Requires: at least one kernel, all with the same `ptx`. Throws: then none is
  /// loaded.
  virtual std::vector<KernelHandle> load_kernels(ContextHandle context,
                                                 std::span<const Kernel* const> kernels,
                                                 std::span<const std::uint64_t> image) = 0;
  virtual void unload_kernel(KernelHandle kernel) = 0;
  virtual void launch(BoundStream stream, KernelHandle kernel, LaunchShape shape,
                      const KernelArguments& arguments) = 0;
  /// The parameters of a kernel that the program loaded itself: a CUfunction or a CUkernel or, on a
  /// simulated machine, the number of a loaded kernel. Throws: Error{unsupported} if the driver has
  /// no such call, or if the kernel is a host function without PTX.
  virtual KernelParameters kernel_parameters(const void* function) = 0;
  /// Whether the handle still names a kernel that has the last of these parameters at the same
  /// offset, and thus at least as many parameters; for an empty list, a kernel without parameters.
  /// Cheap. Requires: `kernel_parameters` returned `parameters` for the handle, and the kernel that
  /// it names now has been launched.
  virtual bool has_parameters(const void* function, const KernelParameters& parameters) = 0;

  // --- Graphs
  virtual void begin_capture(BoundStream stream, CaptureMode mode) = 0;
  virtual GraphHandle end_capture(BoundStream stream) = 0;
  /// `ended` runs once, when the graph that the stream is capturing cannot run any more: the graph,
  /// its copies and its executable graphs are destroyed, and their launches have finished; or the
  /// capture was invalidated. On any thread, perhaps one of the driver's; it must neither throw nor
  /// call the driver. Requires: the stream captures. Throws: then `ended` never runs.
  virtual void at_graph_end(BoundStream stream, std::function<void()> ended) = 0;
  virtual ExecGraphHandle instantiate(GraphHandle graph) = 0;
  virtual void launch_graph(BoundStream stream, ExecGraphHandle graph) = 0;
  virtual void destroy_graph(GraphHandle graph) = 0;
  virtual void destroy_exec_graph(ExecGraphHandle graph) = 0;
  /// Creates steps that run in order, are launched by `launch_graph` and destroyed by
  /// `destroy_exec_graph`. Launches of one chain run one after the other. Requires: at least one
  /// step; kernels of the context. Blocks: slow, so call it before anything is stopped. A chain for
  /// `stop` is not: its first `launch_graph` is.
  virtual ExecGraphHandle make_chain(ContextHandle context, std::span<const ChainStep> steps) = 0;
  /// Later launches perform these steps instead; earlier launches keep theirs. Requires: the same
  /// number of steps, of the same kinds, with the same operations on the same number of words.
  /// Throws: Error; unless the error is about the steps themselves, the chain may then mix old and
  /// new steps until an update succeeds. Does not wait for a thread that frees memory behind
  /// stopped work.
  virtual void update_chain(ExecGraphHandle chain, std::span<const ChainStep> steps) = 0;
  /// Stops a stream of the application by performing what the chain does, with these words instead
  /// of its own, in order with everything that other threads enqueue there. (A `batch` is not in
  /// order: driver 580 may run it concurrently with a graph that another thread launches at that
  /// moment. Launching a graph would end a capture that has begun on the stream, whereas this call
  /// becomes a node of it.) Several stops of one chain may be on their way. Blocks, like a launch,
  /// while a thread frees memory that waits for stopped work. Requires: a chain of one step that
  /// writes one word and then waits for another; `words` do the same.
  virtual void stop(BoundStream stream, ExecGraphHandle chain,
                    std::span<const WordOperation> words) = 0;

  // --- Memory that does not move
  /// Pinned host memory, zeroed, at the same address in every context.
  virtual void* allocate_pinned(ContextHandle context, std::size_t size_bytes) = 0;
  virtual void free_pinned(ContextHandle context, void* pointer) = 0;
  /// The driver's ordinary device memory (cuMemAlloc). `free_plain` waits for the device.
  virtual Address allocate_plain(ContextHandle context, std::size_t size_bytes) = 0;
  virtual void free_plain(ContextHandle context, Address begin) = 0;

  // --- Suspension
  /// Does ahead what the first suspension would take half a second for, if the program has used the
  /// driver before. Blocks: for that, or until `given_up`.
  virtual void prepare_suspensions(const std::function<bool()>& given_up) {
    static_cast<void>(given_up);
  }
  /// Takes the work of all contexts but own ones off these GPUs, wherever it is: in the middle of
  /// kernels, of copies, of waits. On return none of it runs, and none begins before `resume`; what
  /// is enqueued meanwhile waits. It is as if each of its instructions took longer: memory that it
  /// uses may be unmapped and mapped anew, and it goes on with what is mapped then. Other processes
  /// are not affected. Calls of other threads return as ever, but those that create or destroy
  /// contexts, and those that wait for work, may return only after `resume`; while one destroys a
  /// context, `unmap` and `grant` may wait for it. Queries and event
  /// records say what has happened by then.
  /// Blocks: about a millisecond a GPU, whatever runs; while another suspension of the process
  /// lasts. Throws: Error{unsupported} if work cannot be suspended here, and why; then, and if any
  /// GPU fails, nothing is suspended once `resume({})` has returned. Requires: at least one GPU,
  /// each once; the calling thread has no suspension.
  virtual SuspensionHandle suspend(std::span<const DeviceId> gpus) = 0;
  /// As `suspend`, with the work of own contexts: for a check that suspension works here.
  virtual SuspensionHandle suspend_everything(std::span<const DeviceId> gpus) = 0;
  /// The work goes on; with `{}`, what a failed suspension left off. From any thread; does nothing
  /// if it goes on already. Throws: some of it may still stand, and the call may be repeated.
  virtual void resume(SuspensionHandle suspension) = 0;

  // --- For decorators
  /// Tells decorators that work of the application is stopped from now on (+1) or continues (-1),
  /// so that they can check which calls are made meanwhile. Drivers ignore it.
  virtual void note_stopped(int change) noexcept { static_cast<void>(change); }
};

}  // namespace vma
