// The parts of SimMemory outside the virtual memory calls: costs, the driver's other memory, and
// device accesses.
#include "sim/sim_memory.hpp"

#include "base/units.hpp"
#include "driver/native_codes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vma {

TimePoint SimMemory::release_cost(ChunkHandle chunk) const {
  const MutexLock lock(mutex_);
  const auto found = handles_.find(chunk);
  if (found == handles_.end() || found->second.references > 1) return TimePoint::zero();
  return costs_.release(found->second.chunk->at(), found->second.chunk->size_bytes());
}

TimePoint SimMemory::unmap_cost(Address begin, std::uint64_t size_bytes) const {
  const MutexLock lock(mutex_);
  TimePoint total{0};
  for (const auto& it : whole_mappings(begin, size_bytes)) {
    const auto granted =
        static_cast<int>(std::count_if(it->second.gpus.begin(), it->second.gpus.end(),
                                       [](Access access) { return access != Access::none; }));
    total += costs_.unmap(it->second.chunk->at(), it->second.size_bytes, std::max(granted, 1));
  }
  return total;
}

TimePoint SimMemory::grant_cost(Address begin, std::uint64_t size_bytes,
                                std::span<const Accessor> accessors) const {
  const MutexLock lock(mutex_);
  TimePoint total{0};
  for (const auto& it : whole_mappings(begin, size_bytes)) {
    const TimePoint alone = grant_cost_of(it->second, it->first, accessors);
    // Each further mapping in one call costs as much as the smallest chunk if it was granted
    // before.
    const bool cheap = total > TimePoint::zero() && it->second.chunk->granted_before &&
                       it->second.chunk->at().kind == Place::Kind::gpu;
    const TimePoint least =
        look_up(costs_.parameters().grant_later, 0, static_cast<int>(accessors.size()));
    total += cheap ? std::min(alone, least) : alone;
  }
  return total;
}

bool SimMemory::shown_elsewhere(const Mapping& mapping, std::uint64_t begin,
                                std::span<const Accessor> accessors) const {
  for (const std::uint64_t at : mapping.chunk->mapped_at) {
    if (at == begin) continue;
    const Mapping& other = mappings_.at(at);
    if (std::ranges::all_of(accessors, [&](const Accessor& accessor) {
          return accessor.who.kind == Place::Kind::host ||
                 other.gpus[static_cast<std::size_t>(accessor.who.ordinal)] == accessor.access;
        })) {
      return true;
    }
  }
  return false;
}

TimePoint SimMemory::grant_cost_of(const Mapping& mapping, std::uint64_t begin,
                                   std::span<const Accessor> accessors) const {
  GrantSituation grant;
  grant.at = mapping.chunk->at();
  grant.size_bytes = mapping.size_bytes;
  grant.fresh = !mapping.chunk->granted_before;
  grant.gpus = 0;
  grant.own_class_warm = true;
  for (const Accessor& accessor : accessors) {
    const auto reader = static_cast<std::size_t>(accessor.who.ordinal);
    if (accessor.who.kind == Place::Kind::gpu && reader >= gpu_used_.size()) return {};
    ++grant.gpus;
    if (accessor.who.kind != Place::Kind::gpu || grant.at.kind != Place::Kind::gpu) continue;
    const auto owner = static_cast<std::size_t>(grant.at.ordinal);
    if (owner == reader || accessor.access == Access::none) continue;
    const MappingCounts& counts = mapping_counts_[owner][reader];
    if (counts.small + counts.large == 0) ++grant.cold_peers;
    if (counts.large == 0) grant.own_class_warm = false;
  }
  grant.shown_elsewhere = shown_elsewhere(mapping, begin, accessors);
  return costs_.grant(grant);
}

void SimMemory::count_standing(const Mapping& mapping, int change) {
  if (mapping.use != Use::chunk || mapping.chunk->at().kind != Place::Kind::gpu) return;
  const auto owner = static_cast<std::size_t>(mapping.chunk->at().ordinal);
  for (std::size_t reader = 0; reader < mapping.gpus.size(); ++reader) {
    if (mapping.gpus[reader] == Access::none) continue;
    MappingCounts& counts = mapping_counts_[owner][reader];
    (large(mapping.size_bytes) ? counts.large : counts.small) += change;
  }
}

void* SimMemory::allocate_pinned(std::size_t size_bytes) {
  if (size_bytes == 0) throw driver_error(native_invalid_value, "cuMemHostAlloc", "0 bytes");
  Mapping mapping;
  mapping.use = Use::pinned;
  mapping.size_bytes = size_bytes;
  mapping.chunk =
      std::make_shared<SimChunk>(ChunkHandle{next_handle_.fetch_add(1)}, host(0), size_bytes,
                                 store_, std::make_shared<std::atomic<std::uint64_t>>(size_bytes));
  mapping.gpus.assign(gpu_used_.size(), Access::read_write);
  mapping.cpu = Access::read_write;
  void* pointer = mapping.chunk->bytes();
  const MutexLock lock(mutex_);
  mapping.buffer_id = next_buffer_id_++;
  mappings_.emplace(to_integer(address_of(pointer)), std::move(mapping));
  return pointer;
}

void SimMemory::free_pinned(void* pointer) {
  Mapping last;
  const MutexLock lock(mutex_);
  const auto found = mappings_.find(to_integer(address_of(pointer)));
  if (found == mappings_.end() || found->second.use != Use::pinned) {
    throw driver_error(native_invalid_value, "cuMemFreeHost", fmt::format("{}", fmt::ptr(pointer)));
  }
  last = std::move(found->second);
  mappings_.erase(found);
}

Address SimMemory::allocate_plain(DeviceId device, std::size_t size_bytes) {
  if (size_bytes == 0) throw driver_error(native_invalid_value, "cuMemAlloc", "0 bytes");
  const std::uint64_t size = round_up(size_bytes, machine_.granularity_bytes);
  Mapping mapping;
  mapping.use = Use::plain;
  mapping.size_bytes = size;
  mapping.chunk = make_chunk(gpu(index(device)), size, "cuMemAlloc");
  mapping.gpus.assign(gpu_used_.size(), Access::none);
  mapping.gpus[static_cast<std::size_t>(index(device))] = Access::read_write;
  const Address begin = reserve(size, 0);
  const MutexLock lock(mutex_);
  mapping.buffer_id = next_buffer_id_++;
  mappings_.emplace(to_integer(begin), std::move(mapping));
  return begin;
}

void SimMemory::require_plain(DeviceId device, Address begin) const {
  const MutexLock lock(mutex_);
  const auto found = mappings_.find(to_integer(begin));
  if (found == mappings_.end() || found->second.use != Use::plain ||
      found->second.chunk->at() != gpu(index(device))) {
    throw driver_error(native_invalid_value, "cuMemFree", fmt::format("{:#x}", to_integer(begin)));
  }
}

void SimMemory::free_plain(DeviceId device, Address begin) {
  require_plain(device, begin);
  Mapping last;
  {
    const MutexLock lock(mutex_);
    const auto found = mappings_.find(to_integer(begin));
    if (found == mappings_.end()) {
      throw driver_error(native_invalid_value, "cuMemFree",
                         fmt::format("{:#x}", to_integer(begin)));
    }
    last = std::move(found->second);
    mappings_.erase(found);
  }
  unreserve(begin, last.size_bytes);
}

SimSegment SimMemory::touch(int device, Address address, bool write) const {
  return touch_as(device, address, write, false);
}

SimSegment SimMemory::touch_as(int device, Address address, bool write, bool copies) const {
  const MutexLock lock(mutex_);
  const auto found = find(address);
  if (found == mappings_.end()) {
    throw DeviceFault::illegal_address(device, address, "nothing is mapped there");
  }
  const Mapping& mapping = found->second;
  const Access access = copies && mapping.use == Use::plain
                            ? Access::read_write
                            : mapping.gpus[static_cast<std::size_t>(device)];
  if (access == Access::none) {
    throw DeviceFault::illegal_address(device, address, "the device has no access");
  }
  if (write && access == Access::read) {
    throw DeviceFault::illegal_address(device, address, "the device may only read");
  }
  const std::uint64_t offset = to_integer(address) - found->first;
  return {mapping.chunk->bytes() + offset, mapping.size_bytes - offset, mapping.chunk->at(),
          mapping.chunk, offset};
}

SimSegment SimMemory::touch_or_host(int device, Address address, std::uint64_t size_bytes,
                                    bool write) const {
  bool pageable = false;
  if (covered(address, 1, pageable) && pageable) {
    return {static_cast<std::byte*>(to_pointer(address)), size_bytes, host(0), nullptr, 0};
  }
  return touch_as(device, address, write, true);
}

bool SimMemory::anybody_has_access(Address begin, std::uint64_t size_bytes) const {
  const MutexLock lock(mutex_);
  const auto whole = whole_mappings(begin, size_bytes);
  return std::any_of(whole.begin(), whole.end(), [](const auto& it) {
    const std::vector<Access>& gpus = it->second.gpus;
    return it->second.cpu != Access::none ||
           std::any_of(gpus.begin(), gpus.end(), [](Access may) { return may != Access::none; });
  });
}

bool SimMemory::partly_read_only(int device, Address begin, std::uint64_t size_bytes) const {
  const MutexLock lock(mutex_);
  auto it = find(begin);
  if (it == mappings_.end()) it = mappings_.lower_bound(to_integer(begin));
  for (; it != mappings_.end() && it->first < to_integer(begin) + size_bytes; ++it) {
    if (it->second.gpus[static_cast<std::size_t>(device)] == Access::read) return true;
  }
  return false;
}

bool SimMemory::granted(const Mapping& mapping) noexcept {
  return mapping.cpu != Access::none ||
         std::ranges::any_of(mapping.gpus, [](Access access) { return access != Access::none; });
}

bool SimMemory::covered(Address begin, std::uint64_t size_bytes, bool& pageable) const {
  const MutexLock lock(mutex_);
  std::uint64_t at = to_integer(begin);
  const std::uint64_t end = at + size_bytes;
  while (at < end) {
    if (const auto mapping = find(Address{at}); mapping != mappings_.end()) {
      if (!granted(mapping->second)) return false;
      at = mapping->first + mapping->second.size_bytes;
      continue;
    }
    auto next = reservations_.upper_bound(at);
    if (next != reservations_.begin()) {
      const auto around = std::prev(next);
      if (at - around->first < around->second) return false;  // Reserved, but nothing is mapped.
    }
    pageable = true;
    at = next == reservations_.end() ? end : next->first;
  }
  return true;
}

void SimMemory::take(DeviceId device, std::uint64_t size_bytes) {
  const Place at = gpu(index(device));
  const SimChunk::Counter& counter = used(at);
  if (counter->fetch_add(size_bytes) + size_bytes > capacity(at)) {
    counter->fetch_sub(size_bytes);
    throw driver_error(native_out_of_memory, "cuDevicePrimaryCtxRetain",
                       fmt::format("{} has no {} bytes for a context", to_string(at), size_bytes));
  }
}

void SimMemory::give_back(DeviceId device, std::uint64_t size_bytes) noexcept {
  used(gpu(index(device)))->fetch_sub(size_bytes);
}

std::uint64_t SimMemory::free_bytes(DeviceId device) const {
  const Place at = gpu(index(device));
  return capacity(at) - std::min(used(at)->load(), capacity(at));
}

void SimMemory::list_leaks(std::vector<std::string>& leaks) const {
  const MutexLock lock(mutex_);
  for (const auto& [handle, entry] : handles_) {
    leaks.push_back(fmt::format("chunk {:#x} of {} bytes at {}", static_cast<std::uint64_t>(handle),
                                entry.chunk->size_bytes(), to_string(entry.chunk->at())));
  }
  for (const auto& [begin, mapping] : mappings_) {
    const char* what = mapping.use == Use::chunk   ? "mapping"
                       : mapping.use == Use::plain ? "plain memory"
                                                   : "pinned memory";
    leaks.push_back(fmt::format("{} of {} bytes at {:#x}", what, mapping.size_bytes, begin));
  }
  for (const auto& [begin, size] : reservations_) {
    const auto mapping = mappings_.find(begin);
    if (mapping != mappings_.end() && mapping->second.use == Use::plain) continue;
    leaks.push_back(fmt::format("reservation of {} bytes at {:#x}", size, begin));
  }
}

}  // namespace vma
