#pragma once

#include "support/drivers/calls.hpp"
#include "driver/driver.hpp"

#include <functional>
#include <memory>

namespace vma {

/// Forwards every call to another driver through one function: the base of the fault, trace and
/// delay drivers.
///
/// As thread-safe as `around`. Queries that cannot fail are forwarded directly.
class InterceptDriver : public Driver {
 public:
  explicit InterceptDriver(std::unique_ptr<Driver> inner);
  /// Requires: `inner` outlives this object.
  explicit InterceptDriver(Driver& inner);

  Driver& inner() noexcept { return inner_; }

  std::string description() const override { return inner_.description(); }
  bool simulated() const override { return inner_.simulated(); }
  int device_count() const override { return inner_.device_count(); }
  bool has_context_hold() const override { return inner_.has_context_hold(); }
  bool green_contexts_are_apart() const override { return inner_.green_contexts_are_apart(); }
  Clock& clock() override { return inner_.clock(); }
  Executor& executor() override { return inner_.executor(); }

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
  SuspensionHandle suspend(std::span<const DeviceId> gpus) override;
  SuspensionHandle suspend_everything(std::span<const DeviceId> gpus) override;
  void resume(SuspensionHandle suspension) override;
  void note_stopped(int change) noexcept override { inner_.note_stopped(change); }

 protected:
  /// Runs `body`, which makes the call, at most once. The result of a call that is not made is
  /// zero.
  virtual void around(Call call, const std::function<void()>& body) = 0;

 private:
  template <typename Body>
  auto pass(Call call, Body body);

  std::unique_ptr<Driver> owned_;  // Null if the inner driver is not owned.
  Driver& inner_;
};

}  // namespace vma
