#pragma once

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "driver/driver.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vma {

struct CudaApi;
struct CudaExecGraph;

/// The machine that libcuda drives. Thread-safe; each call runs in a scope that preserves the
/// thread's current context and capture mode.
///
/// Handles are the driver's own, except those of kernels and graphs, which also store their
/// context. There is a source file for each section of `Driver`.
class CudaDriver final : public Driver {
 public:
  /// Throws: Error{no_driver, unsupported}. Blocks: for about a second on the process's first use
  /// of CUDA.
  CudaDriver();
  ~CudaDriver() override;

  std::string description() const override;
  bool simulated() const override { return false; }
  int device_count() const override { return static_cast<int>(devices_.size()); }
  bool has_context_hold() const override;
  /// `ContextChoice` in tests/contract/ decides: not shown yet for any driver.
  bool green_contexts_are_apart() const override { return false; }
  Clock& clock() override { return clock_; }
  Executor& executor() override { return executor_; }

  DeviceInfo device_info(DeviceId device) override;
  bool can_access_peer(DeviceId from, DeviceId to) override;
  LinkInfo link_info(DeviceId from, DeviceId to) override;
  int host_node_count() override;
  std::uint64_t granularity(Place at) override;
  std::uint64_t free_bytes(DeviceId device) override;

  Address reserve(std::uint64_t size_bytes, std::uint64_t alignment) override;
  void unreserve(Address begin, std::uint64_t size_bytes) override;
  ChunkHandle create(Place at, std::uint64_t size_bytes) override;
  ExportTypes export_types(Place at) override;
  ChunkHandle create_exportable(Place at, std::uint64_t size_bytes, ExportTypes types) override;
  int export_chunk(ChunkHandle chunk) override;
  ChunkHandle import_chunk(int descriptor) override;
  void release(ChunkHandle chunk) override;
  void map(Address begin, std::uint64_t size_bytes, ChunkHandle chunk) override;
  void unmap(Address begin, std::uint64_t size_bytes) override;
  void grant(Address begin, std::uint64_t size_bytes, std::span<const Accessor> accessors) override;
  Access access(Address address, Place who) override;
  ChunkHandle retain_handle(Address address) override;
  AddressRange address_range(Address address) override;
  PointerInfo pointer_info(Address address) override;

  bool context_active(DeviceId device) override;
  ContextHandle retain_primary(DeviceId device) override;
  void release_primary(DeviceId device) override;
  ContextHandle create_context(DeviceId device) override;
  ContextHandle create_green_context(DeviceId device, int multiprocessors) override;
  ContextHandle create_own_context(DeviceId device) override;
  void destroy_context(ContextHandle context) override;
  ContextHandle current_context() override;
  void set_current_context(ContextHandle context) override;
  DeviceId context_device(ContextHandle context) override;
  std::uint64_t context_id(ContextHandle context) override;
  void synchronize_context(ContextHandle context) override;
  void record_context(ContextHandle context, EventHandle event) override;
  void hold_context(ContextHandle context, EventHandle event) override;

  BoundStream create_stream(ContextHandle context, StreamKind kind) override;
  void destroy_stream(BoundStream stream) override;
  ContextHandle stream_context(StreamHandle stream) override;
  std::uint64_t stream_id(BoundStream stream) override;
  StreamKind stream_kind(BoundStream stream) override;
  /// Also true for the legacy stream while a blocking stream of its context captures.
  bool is_capturing(BoundStream stream) override;
  StreamNow stream_now(StreamHandle stream, std::uint64_t id) override;
  bool query_stream(BoundStream stream) override;
  bool wait_stream(BoundStream stream, TimePoint deadline) override;
  void stream_wait_event(BoundStream stream, EventHandle event) override;
  EventHandle create_event(ContextHandle context) override;
  void destroy_event(EventHandle event) override;
  void record(EventHandle event, BoundStream stream) override;
  bool query_event(EventHandle event) override;
  bool wait_event(EventHandle event, TimePoint deadline) override;

  void batch(BoundStream stream, std::span<const WordOperation> operations) override;
  void copy(BoundStream stream, Address target, Address source, std::uint64_t size_bytes) override;
  void fill(BoundStream stream, Address begin, std::byte value, std::uint64_t size_bytes) override;
  KernelHandle load_kernel(ContextHandle context, const Kernel& kernel) override;
  std::vector<KernelHandle> load_kernels(ContextHandle context,
                                         std::span<const Kernel* const> kernels,
                                         std::span<const std::uint64_t> image) override;
  void unload_kernel(KernelHandle kernel) override;
  void launch(BoundStream stream, KernelHandle kernel, LaunchShape shape,
              const KernelArguments& arguments) override;

  KernelParameters kernel_parameters(const void* function) override;
  bool has_parameters(const void* function, const KernelParameters& parameters) override;
  void begin_capture(BoundStream stream, CaptureMode mode) override;
  GraphHandle end_capture(BoundStream stream) override;
  void at_graph_end(BoundStream stream, std::function<void()> ended) override;
  ExecGraphHandle instantiate(GraphHandle graph) override;
  void launch_graph(BoundStream stream, ExecGraphHandle graph) override;
  void destroy_graph(GraphHandle graph) override;
  void destroy_exec_graph(ExecGraphHandle graph) override;
  ExecGraphHandle make_chain(ContextHandle context, std::span<const ChainStep> steps) override;
  void update_chain(ExecGraphHandle chain, std::span<const ChainStep> steps) override;
  void stop(BoundStream stream, ExecGraphHandle chain,
            std::span<const WordOperation> words) override;

  void* allocate_pinned(ContextHandle context, std::size_t size_bytes) override;
  void free_pinned(ContextHandle context, void* pointer) override;
  Address allocate_plain(ContextHandle context, std::size_t size_bytes) override;
  void free_plain(ContextHandle context, Address begin) override;

  void prepare_suspensions(const std::function<bool()>& given_up) override;
  SuspensionHandle suspend(std::span<const DeviceId> gpus) override;
  SuspensionHandle suspend_everything(std::span<const DeviceId> gpus) override;
  void resume(SuspensionHandle suspension) override;

 private:
  std::uint32_t gpu_id(DeviceId device) const;
  std::vector<std::uint32_t> gpu_ids(std::span<const DeviceId> gpus) const;
  /// CUDA's device for an ordinal. Throws: Error{invalid_argument} for an unknown ordinal.
  int native(DeviceId device) const;
  int attribute(int which, DeviceId device) const;
  std::string uuid(DeviceId device, bool mig) const;
  int probe_host_nodes() const;
  /// A primary context that is retained here, for FallbackContext; null if there is none.
  void* retained_context();
  /// Whether the context is a retained primary context, which outlives other uses.
  bool is_retained(ContextHandle context);
  Place home_of(Address address) const;
  void make_graph(CudaExecGraph& chain, std::span<const ChainStep> steps);
  void upload(const CudaExecGraph& chain);
  /// The kernel that stops streams of the context, as a CUfunction. Loaded on first use.
  void* stopper(void* context);
  /// The module that has this kernel, loaded anew.
  KernelHandle load_stopper(ContextHandle context);

  const CudaApi& api_;          // Constant after construction.
  std::vector<int> devices_;    // Constant after construction.
  std::string kernel_version_;  // Constant after construction; "580.159.04".
  SteadyClock clock_;
  ThreadedExecutor executor_;
  Mutex mutex_;
  /// The primary contexts retained here, and how often, by ordinal.
  struct Primary {
    void* context = nullptr;
    int retained = 0;
  };
  std::vector<Primary> primaries_ VMART_GUARDED_BY(mutex_);
  /// By id of the context. Never unloaded, since the program may have captured them in graphs.
  std::map<std::uint64_t, void*> stoppers_ VMART_GUARDED_BY(mutex_);
  std::map<ContextHandle, void*> greens_ VMART_GUARDED_BY(mutex_);  // CUgreenCtx, by its context.
  std::optional<int> host_nodes_ VMART_GUARDED_BY(mutex_);  // Determined on the first query.
};

}  // namespace vma
