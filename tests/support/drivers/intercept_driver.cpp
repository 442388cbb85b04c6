#include "support/drivers/intercept_driver.hpp"

#include <optional>
#include <type_traits>
#include <utility>

namespace vma {

InterceptDriver::InterceptDriver(std::unique_ptr<Driver> inner)
    : owned_(std::move(inner)), inner_(*owned_) {}

InterceptDriver::InterceptDriver(Driver& inner) : inner_(inner) {}

template <typename Body>
auto InterceptDriver::pass(Call call, Body body) {
  using Result = decltype(body());
  if constexpr (std::is_void_v<Result>) {
    around(call, std::ref(body));
  } else {
    std::optional<Result> result;
    auto keep = [&] { result.emplace(body()); };
    around(call, std::ref(keep));
    return result ? std::move(*result) : Result();
  }
}

DeviceInfo InterceptDriver::device_info(DeviceId device) {
  return pass(Call::device_info, [&] { return inner_.device_info(device); });
}

bool InterceptDriver::can_access_peer(DeviceId from, DeviceId to) {
  return pass(Call::can_access_peer, [&] { return inner_.can_access_peer(from, to); });
}

LinkInfo InterceptDriver::link_info(DeviceId from, DeviceId to) {
  return pass(Call::link_info, [&] { return inner_.link_info(from, to); });
}

int InterceptDriver::host_node_count() {
  return pass(Call::host_node_count, [&] { return inner_.host_node_count(); });
}

std::uint64_t InterceptDriver::granularity(Place at) {
  return pass(Call::granularity, [&] { return inner_.granularity(at); });
}

std::uint64_t InterceptDriver::free_bytes(DeviceId device) {
  return pass(Call::free_bytes, [&] { return inner_.free_bytes(device); });
}

Address InterceptDriver::reserve(std::uint64_t size_bytes, std::uint64_t alignment) {
  return pass(Call::reserve, [&] { return inner_.reserve(size_bytes, alignment); });
}

void InterceptDriver::unreserve(Address begin, std::uint64_t size_bytes) {
  return pass(Call::unreserve, [&] { return inner_.unreserve(begin, size_bytes); });
}

ChunkHandle InterceptDriver::create(Place at, std::uint64_t size_bytes) {
  return pass(Call::create, [&] { return inner_.create(at, size_bytes); });
}

ExportTypes InterceptDriver::export_types(Place at) {
  return pass(Call::export_types, [&] { return inner_.export_types(at); });
}

ChunkHandle InterceptDriver::create_exportable(Place at, std::uint64_t size_bytes,
                                               ExportTypes types) {
  return pass(Call::create_exportable,
              [&] { return inner_.create_exportable(at, size_bytes, types); });
}

int InterceptDriver::export_chunk(ChunkHandle chunk) {
  return pass(Call::export_chunk, [&] { return inner_.export_chunk(chunk); });
}

ChunkHandle InterceptDriver::import_chunk(int descriptor) {
  return pass(Call::import_chunk, [&] { return inner_.import_chunk(descriptor); });
}

void InterceptDriver::release(ChunkHandle chunk) {
  return pass(Call::release, [&] { return inner_.release(chunk); });
}

void InterceptDriver::map(Address begin, std::uint64_t size_bytes, ChunkHandle chunk) {
  return pass(Call::map, [&] { return inner_.map(begin, size_bytes, chunk); });
}

void InterceptDriver::unmap(Address begin, std::uint64_t size_bytes) {
  return pass(Call::unmap, [&] { return inner_.unmap(begin, size_bytes); });
}

void InterceptDriver::grant(Address begin, std::uint64_t size_bytes,
                            std::span<const Accessor> accessors) {
  return pass(Call::grant, [&] { return inner_.grant(begin, size_bytes, accessors); });
}

Access InterceptDriver::access(Address address, Place who) {
  return pass(Call::access, [&] { return inner_.access(address, who); });
}

ChunkHandle InterceptDriver::retain_handle(Address address) {
  return pass(Call::retain_handle, [&] { return inner_.retain_handle(address); });
}

AddressRange InterceptDriver::address_range(Address address) {
  return pass(Call::address_range, [&] { return inner_.address_range(address); });
}

PointerInfo InterceptDriver::pointer_info(Address address) {
  return pass(Call::pointer_info, [&] { return inner_.pointer_info(address); });
}

bool InterceptDriver::context_active(DeviceId device) {
  return pass(Call::context_active, [&] { return inner_.context_active(device); });
}

ContextHandle InterceptDriver::retain_primary(DeviceId device) {
  return pass(Call::retain_primary, [&] { return inner_.retain_primary(device); });
}

void InterceptDriver::release_primary(DeviceId device) {
  return pass(Call::release_primary, [&] { return inner_.release_primary(device); });
}

ContextHandle InterceptDriver::create_context(DeviceId device) {
  return pass(Call::create_context, [&] { return inner_.create_context(device); });
}

ContextHandle InterceptDriver::create_green_context(DeviceId device, int multiprocessors) {
  return pass(Call::create_green_context,
              [&] { return inner_.create_green_context(device, multiprocessors); });
}

ContextHandle InterceptDriver::create_own_context(DeviceId device) {
  return pass(Call::create_own_context, [&] { return inner_.create_own_context(device); });
}

void InterceptDriver::destroy_context(ContextHandle context) {
  return pass(Call::destroy_context, [&] { return inner_.destroy_context(context); });
}

ContextHandle InterceptDriver::current_context() {
  return pass(Call::current_context, [&] { return inner_.current_context(); });
}

void InterceptDriver::set_current_context(ContextHandle context) {
  return pass(Call::set_current_context, [&] { return inner_.set_current_context(context); });
}

std::uint64_t InterceptDriver::context_id(ContextHandle context) {
  return pass(Call::context_id, [&] { return inner_.context_id(context); });
}

DeviceId InterceptDriver::context_device(ContextHandle context) {
  return pass(Call::context_device, [&] { return inner_.context_device(context); });
}

void InterceptDriver::synchronize_context(ContextHandle context) {
  return pass(Call::synchronize_context, [&] { return inner_.synchronize_context(context); });
}

void InterceptDriver::record_context(ContextHandle context, EventHandle event) {
  return pass(Call::record_context, [&] { return inner_.record_context(context, event); });
}

void InterceptDriver::hold_context(ContextHandle context, EventHandle event) {
  return pass(Call::hold_context, [&] { return inner_.hold_context(context, event); });
}

BoundStream InterceptDriver::create_stream(ContextHandle context, StreamKind kind) {
  return pass(Call::create_stream, [&] { return inner_.create_stream(context, kind); });
}

void InterceptDriver::destroy_stream(BoundStream stream) {
  return pass(Call::destroy_stream, [&] { return inner_.destroy_stream(stream); });
}

ContextHandle InterceptDriver::stream_context(StreamHandle stream) {
  return pass(Call::stream_context, [&] { return inner_.stream_context(stream); });
}

std::uint64_t InterceptDriver::stream_id(BoundStream stream) {
  return pass(Call::stream_id, [&] { return inner_.stream_id(stream); });
}

StreamKind InterceptDriver::stream_kind(BoundStream stream) {
  return pass(Call::stream_kind, [&] { return inner_.stream_kind(stream); });
}

StreamNow InterceptDriver::stream_now(StreamHandle stream, std::uint64_t id) {
  return pass(Call::stream_now, [&] { return inner_.stream_now(stream, id); });
}

bool InterceptDriver::is_capturing(BoundStream stream) {
  return pass(Call::is_capturing, [&] { return inner_.is_capturing(stream); });
}

bool InterceptDriver::query_stream(BoundStream stream) {
  return pass(Call::query_stream, [&] { return inner_.query_stream(stream); });
}

bool InterceptDriver::wait_stream(BoundStream stream, TimePoint deadline) {
  return pass(Call::wait_stream, [&] { return inner_.wait_stream(stream, deadline); });
}

void InterceptDriver::stream_wait_event(BoundStream stream, EventHandle event) {
  return pass(Call::stream_wait_event, [&] { return inner_.stream_wait_event(stream, event); });
}

EventHandle InterceptDriver::create_event(ContextHandle context) {
  return pass(Call::create_event, [&] { return inner_.create_event(context); });
}

void InterceptDriver::destroy_event(EventHandle event) {
  return pass(Call::destroy_event, [&] { return inner_.destroy_event(event); });
}

void InterceptDriver::record(EventHandle event, BoundStream stream) {
  return pass(Call::record, [&] { return inner_.record(event, stream); });
}

bool InterceptDriver::query_event(EventHandle event) {
  return pass(Call::query_event, [&] { return inner_.query_event(event); });
}

bool InterceptDriver::wait_event(EventHandle event, TimePoint deadline) {
  return pass(Call::wait_event, [&] { return inner_.wait_event(event, deadline); });
}

void InterceptDriver::batch(BoundStream stream, std::span<const WordOperation> operations) {
  return pass(Call::batch, [&] { return inner_.batch(stream, operations); });
}

void InterceptDriver::copy(BoundStream stream, Address target, Address source,
                           std::uint64_t size_bytes) {
  return pass(Call::copy, [&] { return inner_.copy(stream, target, source, size_bytes); });
}

void InterceptDriver::fill(BoundStream stream, Address begin, std::byte value,
                           std::uint64_t size_bytes) {
  return pass(Call::fill, [&] { return inner_.fill(stream, begin, value, size_bytes); });
}

KernelHandle InterceptDriver::load_kernel(ContextHandle context, const Kernel& kernel) {
  return pass(Call::load_kernel, [&] { return inner_.load_kernel(context, kernel); });
}

std::vector<KernelHandle> InterceptDriver::load_kernels(ContextHandle context,
                                                        std::span<const Kernel* const> kernels,
                                                        std::span<const std::uint64_t> image) {
  return pass(Call::load_kernels, [&] { return inner_.load_kernels(context, kernels, image); });
}

void InterceptDriver::unload_kernel(KernelHandle kernel) {
  return pass(Call::unload_kernel, [&] { return inner_.unload_kernel(kernel); });
}

void InterceptDriver::launch(BoundStream stream, KernelHandle kernel, LaunchShape shape,
                             const KernelArguments& arguments) {
  return pass(Call::launch, [&] { return inner_.launch(stream, kernel, shape, arguments); });
}

KernelParameters InterceptDriver::kernel_parameters(const void* function) {
  return pass(Call::kernel_parameters, [&] { return inner_.kernel_parameters(function); });
}

bool InterceptDriver::has_parameters(const void* function, const KernelParameters& parameters) {
  return pass(Call::has_parameters, [&] { return inner_.has_parameters(function, parameters); });
}

void InterceptDriver::begin_capture(BoundStream stream, CaptureMode mode) {
  return pass(Call::begin_capture, [&] { return inner_.begin_capture(stream, mode); });
}

void InterceptDriver::at_graph_end(BoundStream stream, std::function<void()> ended) {
  pass(Call::at_graph_end, [&] { inner_.at_graph_end(stream, std::move(ended)); });
}

GraphHandle InterceptDriver::end_capture(BoundStream stream) {
  return pass(Call::end_capture, [&] { return inner_.end_capture(stream); });
}

ExecGraphHandle InterceptDriver::instantiate(GraphHandle graph) {
  return pass(Call::instantiate, [&] { return inner_.instantiate(graph); });
}

void InterceptDriver::launch_graph(BoundStream stream, ExecGraphHandle graph) {
  return pass(Call::launch_graph, [&] { return inner_.launch_graph(stream, graph); });
}

void InterceptDriver::destroy_graph(GraphHandle graph) {
  return pass(Call::destroy_graph, [&] { return inner_.destroy_graph(graph); });
}

void InterceptDriver::destroy_exec_graph(ExecGraphHandle graph) {
  return pass(Call::destroy_exec_graph, [&] { return inner_.destroy_exec_graph(graph); });
}

ExecGraphHandle InterceptDriver::make_chain(ContextHandle context,
                                            std::span<const ChainStep> steps) {
  return pass(Call::make_chain, [&] { return inner_.make_chain(context, steps); });
}

void InterceptDriver::update_chain(ExecGraphHandle chain, std::span<const ChainStep> steps) {
  return pass(Call::update_chain, [&] { return inner_.update_chain(chain, steps); });
}

void InterceptDriver::stop(BoundStream stream, ExecGraphHandle chain,
                           std::span<const WordOperation> words) {
  return pass(Call::stop, [&] { return inner_.stop(stream, chain, words); });
}

void* InterceptDriver::allocate_pinned(ContextHandle context, std::size_t size_bytes) {
  return pass(Call::allocate_pinned, [&] { return inner_.allocate_pinned(context, size_bytes); });
}

void InterceptDriver::free_pinned(ContextHandle context, void* pointer) {
  return pass(Call::free_pinned, [&] { return inner_.free_pinned(context, pointer); });
}

Address InterceptDriver::allocate_plain(ContextHandle context, std::size_t size_bytes) {
  return pass(Call::allocate_plain, [&] { return inner_.allocate_plain(context, size_bytes); });
}

void InterceptDriver::free_plain(ContextHandle context, Address begin) {
  return pass(Call::free_plain, [&] { return inner_.free_plain(context, begin); });
}

SuspensionHandle InterceptDriver::suspend(std::span<const DeviceId> gpus) {
  return pass(Call::suspend, [&] { return inner_.suspend(gpus); });
}

SuspensionHandle InterceptDriver::suspend_everything(std::span<const DeviceId> gpus) {
  return pass(Call::suspend_everything, [&] { return inner_.suspend_everything(gpus); });
}

void InterceptDriver::resume(SuspensionHandle suspension) {
  pass(Call::resume, [&] { inner_.resume(suspension); });
}

}  // namespace vma
