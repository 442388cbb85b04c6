#pragma once

#include "driver/driver.hpp"
#include "machine/machine_description.hpp"
#include "sim/race_detector.hpp"
#include "sim/sim_options.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vma {

class SimMachine;

/// A simulated machine: one process's view of libcuda, with real bytes.
///
///
/// `MachineDescription` defines devices, reach and durations. Errors have the CUDA call names and
/// codes of a real driver. Intentionally stricter than one: a copy or fill that touches a slot
/// without a mapping is refused at once, and handles are never reused, so that a stale one is
/// always refused. See `device_view.hpp` for the supported kernels.
class SimDriver : public Driver {
 public:
  explicit SimDriver(MachineDescription machine, const SimOptions& options = {});
  /// Ends the streams and drops blocked work.
  ~SimDriver() override;

  /// Objects that a program should have released: chunks, mappings, reservations, streams, events,
  /// contexts, kernels, graphs, memory. Sorted; empty after a clean shutdown.
  std::vector<std::string> leaks() const;
  /// The races found, oldest first, bounded. Empty unless `detect_races`.
  std::vector<Race> races() const;
  /// Current and maximum bytes of simulated memory.
  std::uint64_t created_bytes() const;
  std::uint64_t budget_bytes() const;
  const MachineDescription& machine() const;

  std::string description() const override;
  bool simulated() const override { return true; }
  int device_count() const override;
  bool has_context_hold() const override { return true; }
  bool green_contexts_are_apart() const override;
  Clock& clock() override;
  Executor& executor() override;

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
  /// When memory of the machine is looked up: `now` as by calls, or as by nodes of a graph.
  enum class LookUp { now, when_it_runs };
  void enqueue_copy(BoundStream stream, Address target, Address source, std::uint64_t size_bytes,
                    LookUp look_up);
  void enqueue_fill(BoundStream stream, Address begin, std::byte value, std::uint64_t size_bytes,
                    LookUp look_up);
  /// Whether it is reserved or memory of the machine, and no pageable memory of the host.
  bool knows(Address address) const;
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
  /// The contexts' work is off its GPU from here on, or goes on; what has that state already keeps
  /// it, and contexts that are gone are left out. As the kernel module does it: no suspension of
  /// this driver may last. Blocks: for accesses in progress.
  void switch_channels(std::span<const ContextHandle> of, bool off);

 private:
  std::unique_ptr<SimMachine> machine_;
};

/// The description of a simulated machine; null for a real one, and behind a decorator.
const MachineDescription* machine_of(const Driver& driver);

}  // namespace vma
