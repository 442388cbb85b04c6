#include "sim/sim_memory.hpp"

#include "base/printable.hpp"
#include "base/units.hpp"
#include "base/vectors.hpp"
#include "driver/native_codes.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

namespace vma {
namespace {

Error invalid(std::string_view call, const std::string& detail) {
  return driver_error(native_invalid_value, call, detail);
}

std::string range_text(Address begin, std::uint64_t size_bytes) {
  return fmt::format("{:#x} and {} bytes", to_integer(begin), size_bytes);
}

void* reserve_addresses(std::uint64_t size_bytes, std::uint64_t alignment) {
  const std::uint64_t padded = size_bytes + alignment;
  void* area = padded < size_bytes ? MAP_FAILED
                                   : mmap(nullptr, padded, PROT_NONE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) {
    throw driver_error(native_out_of_memory, "cuMemAddressReserve",
                       fmt::format("{} bytes: {}", size_bytes, std::strerror(errno)));
  }
  const auto start = reinterpret_cast<std::uint64_t>(area);
  const std::uint64_t begin = round_up(start, alignment);
  if (begin > start) munmap(area, begin - start);
  const std::uint64_t end = begin + size_bytes;
  if (start + padded > end) munmap(reinterpret_cast<void*>(end), start + padded - end);
  return reinterpret_cast<void*>(begin);
}

}  // namespace

SimMemory::SimMemory(const MachineDescription& machine, const CostModel& costs, BackingStore& store,
                     std::uint64_t first_handle, std::uint64_t seed)
    : machine_(machine), costs_(costs), store_(store), seed_(seed), next_handle_(first_handle) {
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    gpu_used_.push_back(std::make_shared<std::atomic<std::uint64_t>>(0));
  }
  for (std::size_t i = 0; i < machine.host_nodes.size(); ++i) {
    node_used_.push_back(std::make_shared<std::atomic<std::uint64_t>>(0));
  }
  mapping_counts_.assign(machine.gpus.size(), std::vector<MappingCounts>(machine.gpus.size()));
}

SimMemory::~SimMemory() {
  for (const auto& [begin, size] : reservations_) munmap(reinterpret_cast<void*>(begin), size);
}

Address SimMemory::reserve(std::uint64_t size_bytes, std::uint64_t alignment) {
  const std::uint64_t granularity = machine_.granularity_bytes;
  if (size_bytes == 0 || size_bytes % granularity != 0) {
    throw invalid("cuMemAddressReserve", fmt::format("{} bytes", size_bytes));
  }
  if (alignment != 0 && !std::has_single_bit(alignment)) {
    throw invalid("cuMemAddressReserve", fmt::format("alignment {}", alignment));
  }
  void* begin = reserve_addresses(size_bytes, std::max(alignment, granularity));
  const MutexLock lock(mutex_);
  reservations_[reinterpret_cast<std::uint64_t>(begin)] = size_bytes;
  return address_of(begin);
}

void SimMemory::unreserve(Address begin, std::uint64_t size_bytes) {
  MutexLock lock(mutex_);
  const auto found = reservations_.find(to_integer(begin));
  if (found == reservations_.end() || found->second != size_bytes) {
    throw invalid("cuMemAddressFree", range_text(begin, size_bytes) + " is not a reservation");
  }
  const auto inside = mappings_.lower_bound(to_integer(begin));
  if (inside != mappings_.end() && inside->first < to_integer(begin) + size_bytes) {
    throw invalid("cuMemAddressFree", range_text(begin, size_bytes) + " has mappings");
  }
  reservations_.erase(found);
  munmap(to_pointer(begin), size_bytes);
}

const SimChunk::Counter& SimMemory::used(Place at) const {
  const auto ordinal = static_cast<std::size_t>(at.ordinal);
  return at.kind == Place::Kind::gpu ? gpu_used_.at(ordinal) : node_used_.at(ordinal);
}

std::uint64_t SimMemory::capacity(Place at) const {
  const auto ordinal = static_cast<std::size_t>(at.ordinal);
  return at.kind == Place::Kind::gpu ? machine_.gpus.at(ordinal).memory_bytes
                                     : machine_.host_nodes.at(ordinal).memory_bytes;
}

bool SimMemory::large(std::uint64_t size_bytes) const {
  const std::uint64_t border = costs_.parameters().size_class_bytes;
  return border > 0 && size_bytes >= border;
}

std::shared_ptr<SimChunk> SimMemory::make_chunk(Place at, std::uint64_t size_bytes,
                                                const char* call, bool exportable) {
  const SimChunk::Counter& counter = used(at);
  const std::uint64_t before = counter->fetch_add(size_bytes);
  if (before + size_bytes > capacity(at)) {
    counter->fetch_sub(size_bytes);
    throw driver_error(
        native_out_of_memory, call,
        fmt::format("{} at {}, which has {} of {} left", bytes_text(size_bytes), to_string(at),
                    bytes_text(capacity(at) - std::min(before, capacity(at))),
                    bytes_text(capacity(at))));
  }
  std::shared_ptr<SimChunk> chunk;
  try {
    const ChunkHandle handle{next_handle_.fetch_add(1)};
    chunk = exportable ? std::make_shared<SimChunk>(handle, ChunkFile::create({at, size_bytes}),
                                                    store_, counter)
                       : std::make_shared<SimChunk>(handle, at, size_bytes, store_, counter);
  } catch (...) {
    counter->fetch_sub(size_bytes);
    throw;
  }
  if (machine_.junk_fill) {
    // Never zero, and different from that of the next chunk.
    const auto number = static_cast<std::uint64_t>(chunk->handle()) * 37 + seed_;
    const auto junk = static_cast<std::byte>(number | 1);
    fill_device_bytes(chunk->bytes(), junk, size_bytes);
  }
  return chunk;
}

void SimMemory::require_place(Place at, const char* call) const {
  const bool is_gpu = at.kind == Place::Kind::gpu;
  const std::size_t places = is_gpu ? gpu_used_.size() : node_used_.size();
  if (at.ordinal >= 0 && static_cast<std::size_t>(at.ordinal) < places) return;
  throw driver_error(is_gpu ? native_invalid_device : native_invalid_value, call,
                     fmt::format("{} does not exist", to_string(at)));
}

ChunkHandle SimMemory::create(Place at, std::uint64_t size_bytes, bool exportable) {
  require_place(at, "cuMemCreate");
  if (size_bytes == 0 || size_bytes % machine_.granularity_bytes != 0) {
    throw invalid("cuMemCreate", fmt::format("{} bytes", size_bytes));
  }
  auto chunk = make_chunk(at, size_bytes, "cuMemCreate", exportable);
  const MutexLock lock(mutex_);
  const ChunkHandle handle = chunk->handle();
  handles_[handle] = Handle{std::move(chunk), 1};
  return handle;
}

int SimMemory::export_chunk(ChunkHandle chunk) {
  constexpr const char* call = "cuMemExportToShareableHandle";
  const MutexLock lock(mutex_);
  const auto found = handles_.find(chunk);
  if (found == handles_.end()) {
    throw invalid(call, fmt::format("handle {:#x}", static_cast<std::uint64_t>(chunk)));
  }
  if (const ChunkFile* file = found->second.chunk->file()) return file->duplicate();
  throw invalid(call, "the chunk was created without this handle type");
}

/// An imported chunk takes no memory of this machine: its exporter has booked it.
ChunkHandle SimMemory::import_chunk(int descriptor) {
  std::unique_ptr<ChunkFile> file = ChunkFile::open(descriptor);
  require_place(file->label().at, "cuMemImportFromShareableHandle");
  const ChunkHandle handle{next_handle_.fetch_add(1)};
  auto chunk = std::make_shared<SimChunk>(handle, std::move(file), store_, nullptr);
  const MutexLock lock(mutex_);
  handles_[handle] = Handle{std::move(chunk), 1};
  return handle;
}

void SimMemory::release(ChunkHandle chunk) {
  std::shared_ptr<SimChunk> last;  // Frees its bytes after the lock is released.
  const MutexLock lock(mutex_);
  const auto found = handles_.find(chunk);
  if (found == handles_.end()) {
    throw invalid("cuMemRelease", fmt::format("handle {:#x}", static_cast<std::uint64_t>(chunk)));
  }
  if (--found->second.references > 0) return;
  last = std::move(found->second.chunk);
  handles_.erase(found);
}

std::uint64_t& SimMemory::reservation_around(Address begin, std::uint64_t size_bytes,
                                             const char* call) {
  auto found = reservations_.upper_bound(to_integer(begin));
  if (found != reservations_.begin()) {
    --found;
    const std::uint64_t offset = to_integer(begin) - found->first;
    if (offset < found->second && size_bytes <= found->second - offset) return found->second;
  }
  throw invalid(call, range_text(begin, size_bytes) + " lies in no reservation");
}

void SimMemory::map(Address begin, std::uint64_t size_bytes, ChunkHandle chunk) {
  const MutexLock lock(mutex_);
  const auto handle = handles_.find(chunk);
  if (handle == handles_.end()) {
    throw invalid("cuMemMap", fmt::format("handle {:#x}", static_cast<std::uint64_t>(chunk)));
  }
  const std::uint64_t chunk_bytes = handle->second.chunk->size_bytes();
  const std::uint64_t start = to_integer(begin);
  if (size_bytes == 0 || size_bytes > chunk_bytes || start % machine_.granularity_bytes != 0) {
    throw invalid("cuMemMap", range_text(begin, size_bytes));
  }
  if (size_bytes != chunk_bytes) {
    throw driver_error(native_not_supported, "cuMemMap",
                       fmt::format("{} of the handle's {} bytes", size_bytes, chunk_bytes));
  }
  reservation_around(begin, size_bytes, "cuMemMap");
  auto next = mappings_.lower_bound(start);
  const bool hits_next = next != mappings_.end() && next->first < start + size_bytes;
  const bool hits_before = next != mappings_.begin() &&
                           std::prev(next)->first + std::prev(next)->second.size_bytes > start;
  if (hits_next || hits_before) {
    throw invalid("cuMemMap", range_text(begin, size_bytes) + " is mapped already");
  }
  Mapping mapping;
  mapping.size_bytes = size_bytes;
  mapping.chunk = handle->second.chunk;
  mapping.gpus.assign(gpu_used_.size(), Access::none);
  mapping.buffer_id = next_buffer_id_++;
  std::vector<std::uint64_t>& mapped_at = mapping.chunk->mapped_at;
  make_room(mapped_at, mapped_at.size() + 1);
  mapped_at.push_back(mappings_.emplace(start, std::move(mapping)).first->first);
}

SimMemory::Mappings::const_iterator SimMemory::find(Address address) const {
  auto found = mappings_.upper_bound(to_integer(address));
  if (found == mappings_.begin()) return mappings_.end();
  --found;
  return to_integer(address) - found->first < found->second.size_bytes ? found : mappings_.end();
}

std::vector<SimMemory::Mappings::const_iterator> SimMemory::whole_mappings(
    Address begin, std::uint64_t size_bytes) const {
  std::vector<Mappings::const_iterator> whole;
  std::uint64_t at = to_integer(begin);
  const std::uint64_t end = at + size_bytes;
  while (at < end) {
    const auto found = mappings_.find(at);
    if (found == mappings_.end() || found->second.use != Use::chunk ||
        found->second.size_bytes > end - at) {
      return {};
    }
    whole.push_back(found);
    at += found->second.size_bytes;
  }
  return whole;
}

void SimMemory::unmap(Address begin, std::uint64_t size_bytes) {
  std::vector<std::shared_ptr<SimChunk>> last;  // As in `release`.
  const MutexLock lock(mutex_);
  const auto whole = whole_mappings(begin, size_bytes);
  if (whole.empty()) {
    throw invalid("cuMemUnmap", range_text(begin, size_bytes) + " is not made of whole mappings");
  }
  for (const auto& it : whole) {
    Mapping& mapping = mappings_.at(it->first);
    if (mapping.cpu == Access::none) continue;
    store_.hide(reinterpret_cast<void*>(it->first), mapping.size_bytes);
    mapping.cpu = Access::none;  // If the next one throws, all are still mapped for GPUs.
  }
  last.reserve(whole.size());
  for (const auto& mapping : whole) {
    count_standing(mapping->second, -1);
    std::erase(mapping->second.chunk->mapped_at, mapping->first);
    last.push_back(mapping->second.chunk);
    mappings_.erase(mapping);
  }
}

void SimMemory::check_accessors(const Mapping& mapping, std::span<const Accessor> accessors) const {
  const Place at = mapping.chunk->at();
  for (const Accessor& accessor : accessors) {
    const auto ordinal = static_cast<std::size_t>(accessor.who.ordinal);
    const bool is_gpu = accessor.who.kind == Place::Kind::gpu;
    if (accessor.who.ordinal < 0 || ordinal >= (is_gpu ? gpu_used_.size() : node_used_.size())) {
      throw invalid("cuMemSetAccess", to_string(accessor.who) + " is not there");
    }
    if (!is_gpu && at.kind == Place::Kind::gpu) {
      throw driver_error(native_not_supported, "cuMemSetAccess",
                         fmt::format("{} to memory of {}", to_string(accessor.who), to_string(at)));
    }
    if (is_gpu && at.kind == Place::Kind::gpu && accessor.access != Access::none &&
        machine_.peer_links[ordinal][static_cast<std::size_t>(at.ordinal)].kind == LinkKind::none) {
      throw driver_error(native_invalid_device, "cuMemSetAccess",
                         fmt::format("{} cannot reach {}", to_string(accessor.who), to_string(at)));
    }
  }
}

void SimMemory::grant(Address begin, std::uint64_t size_bytes,
                      std::span<const Accessor> accessors) {
  const MutexLock lock(mutex_);
  const auto whole = whole_mappings(begin, size_bytes);
  if (whole.empty() || accessors.empty()) {
    throw invalid("cuMemSetAccess",
                  range_text(begin, size_bytes) + " is not made of whole mappings");
  }
  for (const auto& mapping : whole) check_accessors(mapping->second, accessors);
  for (const auto& it : whole) {
    Mapping& mapping = mappings_.at(it->first);
    Access cpu = mapping.cpu;
    std::vector<Access> gpus = mapping.gpus;
    for (const Accessor& accessor : accessors) {
      if (accessor.who.kind == Place::Kind::host)
        cpu = accessor.access;
      else
        gpus[static_cast<std::size_t>(accessor.who.ordinal)] = accessor.access;
    }
    void* address = reinterpret_cast<void*>(it->first);
    if (cpu != mapping.cpu) {
      if (cpu == Access::none)
        store_.hide(address, mapping.size_bytes);
      else
        mapping.chunk->show(address, cpu == Access::read_write);
    }
    count_standing(mapping, -1);
    mapping.cpu = cpu;
    mapping.gpus = std::move(gpus);
    mapping.chunk->granted_before = true;
    count_standing(mapping, 1);
  }
}

Access SimMemory::access(Address address, Place who) const {
  const MutexLock lock(mutex_);
  const auto found = find(address);
  if (found == mappings_.end() || found->second.use != Use::chunk) {
    throw invalid("cuMemGetAccess", fmt::format("{:#x} is not mapped", to_integer(address)));
  }
  const bool is_gpu = who.kind == Place::Kind::gpu;
  const std::size_t places = is_gpu ? gpu_used_.size() : node_used_.size();
  if (who.ordinal < 0 || static_cast<std::size_t>(who.ordinal) >= places) {
    throw invalid("cuMemGetAccess", to_string(who) + " is not there");
  }
  return is_gpu ? found->second.gpus[static_cast<std::size_t>(who.ordinal)] : found->second.cpu;
}

ChunkHandle SimMemory::retain_handle(Address address) {
  const MutexLock lock(mutex_);
  const auto found = find(address);
  if (found == mappings_.end() || found->second.use != Use::chunk) {
    throw invalid("cuMemRetainAllocationHandle",
                  fmt::format("{:#x} is not mapped", to_integer(address)));
  }
  const std::shared_ptr<SimChunk>& chunk = found->second.chunk;
  const auto [handle, fresh] = handles_.try_emplace(chunk->handle(), Handle{chunk, 0});
  ++handle->second.references;
  return chunk->handle();
}

AddressRange SimMemory::address_range(Address address) const {
  const MutexLock lock(mutex_);
  const auto found = find(address);
  if (found == mappings_.end()) {
    throw driver_error(native_not_found, "cuMemGetAddressRange",
                       fmt::format("{:#x} is not mapped", to_integer(address)));
  }
  return {Address{found->first}, found->second.size_bytes};
}

PointerInfo SimMemory::pointer_info(Address address) const {
  const MutexLock lock(mutex_);
  const auto found = find(address);
  if (found == mappings_.end()) {
    throw invalid("cuPointerGetAttributes",
                  fmt::format("{:#x} is not mapped", to_integer(address)));
  }
  return {found->second.chunk->at(), found->second.buffer_id, found->second.use != Use::chunk};
}

}  // namespace vma
