#include "unit/driver/counting_driver.hpp"

namespace vma {

DeviceInfo CountingDriver::device_info(DeviceId) {
  return count(Call::device_info, [] {
    DeviceInfo info;
    info.name = "counting";
    return info;
  }());
}
bool CountingDriver::can_access_peer(DeviceId, DeviceId) {
  return count(Call::can_access_peer, bool{});
}
LinkInfo CountingDriver::link_info(DeviceId, DeviceId) {
  return count(Call::link_info, LinkInfo{});
}
int CountingDriver::host_node_count() {
  return count(Call::host_node_count, int{});
}
std::uint64_t CountingDriver::granularity(Place) {
  return count(Call::granularity, std::uint64_t{});
}
std::uint64_t CountingDriver::free_bytes(DeviceId) {
  return count(Call::free_bytes, std::uint64_t{});
}
Address CountingDriver::reserve(std::uint64_t, std::uint64_t) {
  return count(Call::reserve, Address{0x1000});
}
void CountingDriver::unreserve(Address, std::uint64_t) {
  count(Call::unreserve, 0);
}
ChunkHandle CountingDriver::create(Place, std::uint64_t) {
  return count(Call::create, ChunkHandle{7});
}
ExportTypes CountingDriver::export_types(Place) {
  return count(Call::export_types, ExportTypes{});
}
ChunkHandle CountingDriver::create_exportable(Place, std::uint64_t, ExportTypes) {
  return count(Call::create_exportable, ChunkHandle{8});
}
int CountingDriver::export_chunk(ChunkHandle) {
  return count(Call::export_chunk, -1);
}
ChunkHandle CountingDriver::import_chunk(int) {
  return count(Call::import_chunk, ChunkHandle{9});
}
void CountingDriver::release(ChunkHandle) {
  count(Call::release, 0);
}
void CountingDriver::map(Address, std::uint64_t, ChunkHandle) {
  count(Call::map, 0);
}
void CountingDriver::unmap(Address, std::uint64_t) {
  count(Call::unmap, 0);
}
void CountingDriver::grant(Address, std::uint64_t, std::span<const Accessor>) {
  count(Call::grant, 0);
}
Access CountingDriver::access(Address, Place) {
  return count(Call::access, Access{});
}
ChunkHandle CountingDriver::retain_handle(Address) {
  return count(Call::retain_handle, ChunkHandle{});
}
AddressRange CountingDriver::address_range(Address) {
  return count(Call::address_range, AddressRange{});
}
PointerInfo CountingDriver::pointer_info(Address) {
  return count(Call::pointer_info, PointerInfo{});
}
bool CountingDriver::context_active(DeviceId) {
  return count(Call::context_active, bool{});
}
ContextHandle CountingDriver::retain_primary(DeviceId) {
  return count(Call::retain_primary, ContextHandle{});
}
void CountingDriver::release_primary(DeviceId) {
  count(Call::release_primary, 0);
}
ContextHandle CountingDriver::create_context(DeviceId) {
  return count(Call::create_context, ContextHandle{});
}
ContextHandle CountingDriver::create_green_context(DeviceId, int) {
  return count(Call::create_green_context, ContextHandle{});
}
ContextHandle CountingDriver::create_own_context(DeviceId) {
  return count(Call::create_own_context, ContextHandle{});
}
void CountingDriver::destroy_context(ContextHandle) {
  count(Call::destroy_context, 0);
}
ContextHandle CountingDriver::current_context() {
  return count(Call::current_context, ContextHandle{});
}
void CountingDriver::set_current_context(ContextHandle) {
  count(Call::set_current_context, 0);
}
std::uint64_t CountingDriver::context_id(ContextHandle) {
  return count(Call::context_id, std::uint64_t{0});
}
DeviceId CountingDriver::context_device(ContextHandle) {
  return count(Call::context_device, DeviceId{});
}
void CountingDriver::synchronize_context(ContextHandle) {
  count(Call::synchronize_context, 0);
}
void CountingDriver::record_context(ContextHandle, EventHandle) {
  count(Call::record_context, 0);
}
void CountingDriver::hold_context(ContextHandle, EventHandle) {
  count(Call::hold_context, 0);
}
BoundStream CountingDriver::create_stream(ContextHandle, StreamKind) {
  return count(Call::create_stream, BoundStream{});
}
void CountingDriver::destroy_stream(BoundStream) {
  count(Call::destroy_stream, 0);
}
ContextHandle CountingDriver::stream_context(StreamHandle) {
  return count(Call::stream_context, ContextHandle{});
}
std::uint64_t CountingDriver::stream_id(BoundStream) {
  return count(Call::stream_id, std::uint64_t{});
}
StreamKind CountingDriver::stream_kind(BoundStream) {
  return count(Call::stream_kind, StreamKind{});
}
bool CountingDriver::is_capturing(BoundStream) {
  return count(Call::is_capturing, bool{});
}
StreamNow CountingDriver::stream_now(StreamHandle, std::uint64_t) {
  return count(Call::stream_now, StreamNow{});
}
bool CountingDriver::query_stream(BoundStream) {
  return count(Call::query_stream, bool{});
}
bool CountingDriver::wait_stream(BoundStream, TimePoint) {
  return count(Call::wait_stream, bool{});
}
void CountingDriver::stream_wait_event(BoundStream, EventHandle) {
  count(Call::stream_wait_event, 0);
}
EventHandle CountingDriver::create_event(ContextHandle) {
  return count(Call::create_event, EventHandle{});
}
void CountingDriver::destroy_event(EventHandle) {
  count(Call::destroy_event, 0);
}
void CountingDriver::record(EventHandle, BoundStream) {
  count(Call::record, 0);
}
bool CountingDriver::query_event(EventHandle) {
  return count(Call::query_event, bool{});
}
bool CountingDriver::wait_event(EventHandle, TimePoint) {
  return count(Call::wait_event, bool{});
}
void CountingDriver::batch(BoundStream, std::span<const WordOperation>) {
  count(Call::batch, 0);
}
void CountingDriver::copy(BoundStream, Address, Address, std::uint64_t) {
  count(Call::copy, 0);
}
void CountingDriver::fill(BoundStream, Address, std::byte, std::uint64_t) {
  count(Call::fill, 0);
}
KernelHandle CountingDriver::load_kernel(ContextHandle, const Kernel&) {
  return count(Call::load_kernel, KernelHandle{});
}
std::vector<KernelHandle> CountingDriver::load_kernels(ContextHandle,
                                                       std::span<const Kernel* const>,
                                                       std::span<const std::uint64_t>) {
  return count(Call::load_kernels, std::vector<KernelHandle>{});
}
void CountingDriver::unload_kernel(KernelHandle) {
  count(Call::unload_kernel, 0);
}
void CountingDriver::launch(BoundStream, KernelHandle, LaunchShape, const KernelArguments&) {
  count(Call::launch, 0);
}
KernelParameters CountingDriver::kernel_parameters(const void*) {
  return count(Call::kernel_parameters, KernelParameters{});
}
bool CountingDriver::has_parameters(const void*, const KernelParameters&) {
  return count(Call::has_parameters, true);
}
void CountingDriver::begin_capture(BoundStream, CaptureMode) {
  count(Call::begin_capture, 0);
}
void CountingDriver::at_graph_end(BoundStream, std::function<void()>) {
  count(Call::at_graph_end, 0);
}
GraphHandle CountingDriver::end_capture(BoundStream) {
  return count(Call::end_capture, GraphHandle{});
}
ExecGraphHandle CountingDriver::instantiate(GraphHandle) {
  return count(Call::instantiate, ExecGraphHandle{});
}
void CountingDriver::launch_graph(BoundStream, ExecGraphHandle) {
  count(Call::launch_graph, 0);
}
void CountingDriver::destroy_graph(GraphHandle) {
  count(Call::destroy_graph, 0);
}
void CountingDriver::destroy_exec_graph(ExecGraphHandle) {
  count(Call::destroy_exec_graph, 0);
}
ExecGraphHandle CountingDriver::make_chain(ContextHandle, std::span<const ChainStep>) {
  return count(Call::make_chain, ExecGraphHandle{});
}
void CountingDriver::update_chain(ExecGraphHandle, std::span<const ChainStep>) {
  count(Call::update_chain, 0);
}
void CountingDriver::stop(BoundStream, ExecGraphHandle, std::span<const WordOperation>) {
  count(Call::stop, 0);
}
void* CountingDriver::allocate_pinned(ContextHandle, std::size_t) {
  return count(Call::allocate_pinned, static_cast<void*>(nullptr));
}
void CountingDriver::free_pinned(ContextHandle, void*) {
  count(Call::free_pinned, 0);
}
Address CountingDriver::allocate_plain(ContextHandle, std::size_t) {
  return count(Call::allocate_plain, Address{});
}
void CountingDriver::free_plain(ContextHandle, Address) {
  count(Call::free_plain, 0);
}
SuspensionHandle CountingDriver::suspend(std::span<const DeviceId>) {
  return count(Call::suspend, SuspensionHandle{});
}
SuspensionHandle CountingDriver::suspend_everything(std::span<const DeviceId>) {
  return count(Call::suspend_everything, SuspensionHandle{});
}
void CountingDriver::resume(SuspensionHandle) {
  count(Call::resume, 0);
}

}  // namespace vma
