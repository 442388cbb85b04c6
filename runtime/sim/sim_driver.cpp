#include "sim/sim_driver.hpp"

#include "driver/native_codes.hpp"
#include "sim/sim_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vma {

SimDriver::SimDriver(MachineDescription machine, const SimOptions& options)
    : machine_(std::make_unique<SimMachine>(std::move(machine), options)) {}
SimDriver::~SimDriver() = default;

std::vector<std::string> SimDriver::leaks() const {
  std::vector<std::string> leaks;
  machine_->memory.list_leaks(leaks);
  const MutexLock lock(machine_->progress.mutex);
  const auto add = [&](const char* what, auto handle) {
    leaks.push_back(fmt::format("{} {:#x}", what, static_cast<std::uint64_t>(handle)));
  };
  for (const auto& [handle, context] : machine_->contexts) add("context", handle);
  for (const auto& [handle, stream] : machine_->streams) {
    const SimContext& context = stream->context();
    const bool own = std::any_of(context.of_thread.begin(), context.of_thread.end(),
                                 [&](const auto& it) { return it.second == stream.get(); });
    if (stream.get() != context.legacy && !own) add("stream", handle);
  }
  for (const auto& [handle, event] : machine_->events) add("event", handle);
  for (const auto& [handle, kernel] : machine_->kernels) add("kernel", handle);
  for (const auto& [handle, graph] : machine_->graphs) add("graph", handle);
  for (const auto& [handle, graph] : machine_->exec_graphs) add("executable graph", handle);
  std::sort(leaks.begin(), leaks.end());
  return leaks;
}

std::vector<Race> SimDriver::races() const {
  return machine_->races.races();
}
std::uint64_t SimDriver::created_bytes() const {
  return machine_->store.created_bytes();
}
std::uint64_t SimDriver::budget_bytes() const {
  return machine_->store.budget_bytes();
}
const MachineDescription& SimDriver::machine() const {
  return machine_->description;
}

std::string SimDriver::description() const {
  return "simulated " + machine_->description.name;
}
bool SimDriver::green_contexts_are_apart() const {
  return machine_->options.green_contexts_are_apart;
}
int SimDriver::device_count() const {
  return static_cast<int>(machine_->description.gpus.size());
}
Clock& SimDriver::clock() {
  return machine_->clock;
}
Executor& SimDriver::executor() {
  return machine_->executor;
}

DeviceInfo SimDriver::device_info(DeviceId device) {
  machine_->require_device(device, "cuDeviceGet");
  const GpuDescription& gpu = machine_->description.gpus[static_cast<std::size_t>(index(device))];
  DeviceInfo info;
  info.name = gpu.name;
  info.uuid = fmt::format("GPU-51300000-0000-0000-{:04x}-{:012x}", machine_->serial & 0xffff,
                          index(device));
  info.pci_bus_id = fmt::format("0000:{:02X}:00.0", index(device) + 1);
  info.memory_bytes = gpu.memory_bytes;
  info.multiprocessors = gpu.multiprocessors;
  info.compute_capability = gpu.compute_capability;
  info.host_node = gpu.host_node;
  info.copy_engines = gpu.copy_engines;
  info.max_queues = gpu.hardware_queues;
  const auto& links = machine_->description.host_links[static_cast<std::size_t>(index(device))];
  info.host_atomics = std::ranges::all_of(links, &HostLink::native_atomics);
  return info;
}

bool SimDriver::can_access_peer(DeviceId from, DeviceId to) {
  machine_->require_device(from, "cuDeviceCanAccessPeer");
  machine_->require_device(to, "cuDeviceCanAccessPeer");
  return link_info(from, to).kind != LinkKind::none;
}

LinkInfo SimDriver::link_info(DeviceId from, DeviceId to) {
  machine_->require_device(from, "cuDeviceGetP2PAttribute");
  machine_->require_device(to, "cuDeviceGetP2PAttribute");
  const PeerLink& link =
      machine_->description
          .peer_links[static_cast<std::size_t>(index(from))][static_cast<std::size_t>(index(to))];
  return {link.kind, link.native_atomics, link.kind == LinkKind::pcie ? 1 : 0};
}

int SimDriver::host_node_count() {
  return static_cast<int>(machine_->description.host_nodes.size());
}

std::uint64_t SimDriver::granularity(Place at) {
  const bool is_gpu = at.kind == Place::Kind::gpu;
  if (at.ordinal < 0 || at.ordinal >= (is_gpu ? device_count() : host_node_count())) {
    throw driver_error(is_gpu ? native_invalid_device : native_invalid_value,
                       "cuMemGetAllocationGranularity", to_string(at) + " is not there");
  }
  return machine_->description.granularity_bytes;
}

std::uint64_t SimDriver::free_bytes(DeviceId device) {
  machine_->require_device(device, "cuMemGetInfo");
  return context_active(device) ? machine_->memory.free_bytes(device) : 0;
}

Address SimDriver::reserve(std::uint64_t size_bytes, std::uint64_t alignment) {
  const CallTime time(*machine_, machine_->costs.parameters().reserve_us);
  return machine_->memory.reserve(size_bytes, alignment);
}

void SimDriver::unreserve(Address begin, std::uint64_t size_bytes) {
  const CallTime time(*machine_, machine_->costs.parameters().unreserve_us);
  machine_->memory.unreserve(begin, size_bytes);
}

ChunkHandle SimDriver::create(Place at, std::uint64_t size_bytes) {
  const CallTime time(*machine_, machine_->costs.create(at, size_bytes));
  return machine_->memory.create(at, size_bytes);
}

ExportTypes SimDriver::export_types(Place) {
  return {.descriptor = true, .fabric = false, .rdma = true};  // As without IMEX.
}

ChunkHandle SimDriver::create_exportable(Place at, std::uint64_t size_bytes, ExportTypes types) {
  if (types.fabric) {
    throw driver_error(native_not_permitted, "cuMemCreate", "fabric handles need IMEX");
  }
  const CallTime time(*machine_, machine_->costs.create(at, size_bytes));
  return machine_->memory.create(at, size_bytes, types.descriptor);
}

int SimDriver::export_chunk(ChunkHandle chunk) {
  return machine_->memory.export_chunk(chunk);
}

ChunkHandle SimDriver::import_chunk(int descriptor) {
  return machine_->memory.import_chunk(descriptor);
}

void SimDriver::release(ChunkHandle chunk) {
  const CallTime time(*machine_, machine_->memory.release_cost(chunk));
  machine_->memory.release(chunk);
}

void SimDriver::map(Address begin, std::uint64_t size_bytes, ChunkHandle chunk) {
  const CallTime time(*machine_, machine_->costs.parameters().map_us);
  machine_->memory.map(begin, size_bytes, chunk);
}

void SimDriver::unmap(Address begin, std::uint64_t size_bytes) {
  if (machine_->memory.anybody_has_access(begin, size_bytes)) {
    MutexLock lock(machine_->progress.mutex);
    machine_->wait_for_destroys(lock);
  }
  const CallTime time(*machine_, machine_->memory.unmap_cost(begin, size_bytes));
  machine_->memory.unmap(begin, size_bytes);
}

void SimDriver::grant(Address begin, std::uint64_t size_bytes,
                      std::span<const Accessor> accessors) {
  {
    MutexLock lock(machine_->progress.mutex);
    machine_->wait_for_destroys(lock);
  }
  const CallTime time(*machine_, machine_->memory.grant_cost(begin, size_bytes, accessors));
  machine_->memory.grant(begin, size_bytes, accessors);
}

Access SimDriver::access(Address address, Place who) {
  return machine_->memory.access(address, who);
}
ChunkHandle SimDriver::retain_handle(Address address) {
  return machine_->memory.retain_handle(address);
}
AddressRange SimDriver::address_range(Address address) {
  return machine_->memory.address_range(address);
}
PointerInfo SimDriver::pointer_info(Address address) {
  return machine_->memory.pointer_info(address);
}

const MachineDescription* machine_of(const Driver& driver) {
  const auto* simulated = dynamic_cast<const SimDriver*>(&driver);
  return simulated == nullptr ? nullptr : &simulated->machine();
}

}  // namespace vma
