#include "simcuda/memory.hpp"

#include "simcuda/library.hpp"

#include "base/units.hpp"

#include <utility>

namespace vma {

Place location_of(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE: return gpu(index(device_of(location.id)));
    case CU_MEM_LOCATION_TYPE_HOST_NUMA: return host(location.id);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: return host(0);
    default: refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

ChunkProperties& ChunkProperties::of_process() {
  static ChunkProperties& known = *new ChunkProperties;
  return known;
}

void ChunkProperties::created(ChunkHandle chunk, const CUmemAllocationProp& properties) {
  const MutexLock lock(mutex_);
  chunks_[chunk] = {properties, 1};
}

void ChunkProperties::retained(ChunkHandle chunk, Address shown_at) {
  const Place at = sim().pointer_info(shown_at).at;
  const MutexLock lock(mutex_);
  Known& known = chunks_[chunk];
  ++known.references;
  known.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  known.properties.location.type =
      at.kind == Place::Kind::gpu ? CU_MEM_LOCATION_TYPE_DEVICE : CU_MEM_LOCATION_TYPE_HOST_NUMA;
  known.properties.location.id =
      at.kind == Place::Kind::gpu ? ordinal_of(DeviceId{at.ordinal}) : at.ordinal;
}

void ChunkProperties::released(ChunkHandle chunk) {
  const MutexLock lock(mutex_);
  const auto found = chunks_.find(chunk);
  if (found != chunks_.end() && --found->second.references == 0) chunks_.erase(found);
}

CUmemAllocationProp ChunkProperties::of(ChunkHandle chunk) const {
  const MutexLock lock(mutex_);
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end()) refuse(CUDA_ERROR_INVALID_VALUE);
  return found->second.properties;
}

DeviceMemory& DeviceMemory::of_process() {
  static DeviceMemory& memory = *new DeviceMemory;
  return memory;
}

Address DeviceMemory::allocate(ContextHandle context, std::size_t size_bytes) {
  drain();
  const Address begin = sim().allocate_plain(context, size_bytes);
  const MutexLock lock(mutex_);
  plain_[begin] = {context, size_bytes};
  return begin;
}

Address DeviceMemory::allocate_ordered(DeviceId device, std::size_t size_bytes, CUmemoryPool pool,
                                       const std::vector<Accessor>& accessors) {
  if (size_bytes == 0) refuse(CUDA_ERROR_INVALID_VALUE);
  drain();
  const Place at = gpu(index(device));
  const std::uint64_t size = round_up(size_bytes, sim().granularity(at));
  const Address begin = sim().reserve(size, 0);
  ChunkHandle chunk{};
  try {
    chunk = sim().create(at, size);
    sim().map(begin, size, chunk);
  } catch (...) {
    if (!is_none(chunk)) sim().release(chunk);
    sim().unreserve(begin, size);
    throw;
  }
  sim().release(chunk);  // The mapping keeps the memory.
  sim().grant(begin, size, accessors);
  const MutexLock lock(mutex_);
  ordered_[begin] = {size, size_bytes, pool};
  return begin;
}

void DeviceMemory::grant(CUmemoryPool pool, const Accessor& accessor) {
  const MutexLock lock(mutex_);
  for (const auto& [begin, memory] : ordered_) {
    if (memory.pool == pool) sim().grant(begin, memory.size_bytes, {&accessor, 1});
  }
}

void DeviceMemory::unmap_ordered(Address begin, std::uint64_t size_bytes) {
  sim().unmap(begin, size_bytes);
  sim().unreserve(begin, size_bytes);
}

void DeviceMemory::free(Address begin) {
  MutexLock lock(mutex_);
  if (const auto ordered = ordered_.find(begin); ordered != ordered_.end()) {
    if (ordered->second.freed) refuse(CUDA_ERROR_INVALID_VALUE);
    const std::uint64_t size = ordered->second.size_bytes;
    ordered_.erase(ordered);
    lock.unlock();
    return unmap_ordered(begin, size);
  }
  // Taken out first: once it is freed, another thread may be given the same address.
  auto plain = plain_.extract(begin);
  if (plain.empty()) refuse(CUDA_ERROR_INVALID_VALUE);
  const ContextHandle owner = plain.mapped().context;
  lock.unlock();
  // The call waits for the caller's context, if that is on the same GPU.
  const ContextHandle caller = top_context();
  const bool here =
      !is_none(caller) && gpu(index(sim().context_device(caller))) == sim().pointer_info(begin).at;
  try {
    sim().free_plain(here ? caller : owner, begin);
  } catch (...) {
    lock.lock();
    plain_.insert(std::move(plain));
    throw;
  }
}

void DeviceMemory::hand_over(ContextHandle from, ContextHandle to) {
  const MutexLock lock(mutex_);
  for (auto& [begin, memory] : plain_) {
    if (memory.context == from) memory.context = to;
  }
}

void DeviceMemory::free_all_of(ContextHandle context) {
  std::vector<Address> owned;
  {
    const MutexLock lock(mutex_);
    for (const auto& [begin, memory] : plain_) {
      if (memory.context == context) owned.push_back(begin);
    }
  }
  if (!owned.empty()) sim().synchronize_context(context);
  for (const Address begin : owned) free(begin);
}

void DeviceMemory::free_after(BoundStream stream, Address begin) {
  if (sim().is_capturing(stream)) refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  if (pool_of(begin) == nullptr) return free(begin);  // The driver takes memory of cuMemAlloc too.
  const ContextHandle context =
      is_none(stream.context) ? sim().stream_context(stream.handle) : stream.context;
  const EventHandle event = sim().create_event(context);
  try {
    sim().record(event, stream);
  } catch (...) {
    sim().destroy_event(event);
    throw;
  }
  const MutexLock lock(mutex_);
  const auto ordered = ordered_.find(begin);
  if (ordered == ordered_.end() || ordered->second.freed) {
    sim().destroy_event(event);
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  ordered->second.freed = true;
  freed_.push_back({begin, event});
}

void DeviceMemory::drain() {
  std::vector<std::pair<Address, std::uint64_t>> done;
  {
    const MutexLock lock(mutex_);
    std::erase_if(freed_, [&](const Freed& freed) VMART_NO_THREAD_ANALYSIS {
      bool ended = true;
      try {
        ended = sim().query_event(freed.event);
        if (ended) sim().destroy_event(freed.event);
      } catch (const Error&) {  // Its context is gone, and the stream with it.
      }
      if (!ended) return false;
      const auto memory = ordered_.find(freed.begin);
      if (memory == ordered_.end()) return true;
      done.emplace_back(memory->first, memory->second.size_bytes);
      ordered_.erase(memory);
      return true;
    });
  }
  for (const auto& [begin, size] : done) unmap_ordered(begin, size);
}

ContextHandle DeviceMemory::context_of(Address begin) const {
  const MutexLock lock(mutex_);
  const auto found = plain_.find(begin);
  return found == plain_.end() ? ContextHandle{} : found->second.context;
}

AddressRange DeviceMemory::range_around(Address inside) const {
  AddressRange range = sim().address_range(inside);
  const MutexLock lock(mutex_);
  if (const auto plain = plain_.find(range.begin); plain != plain_.end()) {
    range.size_bytes = plain->second.size_bytes;
  } else if (const auto ordered = ordered_.find(range.begin); ordered != ordered_.end()) {
    range.size_bytes = ordered->second.asked_bytes;
  }
  return range;
}

CUmemoryPool DeviceMemory::pool_of(Address begin) const {
  const MutexLock lock(mutex_);
  const auto found = ordered_.find(begin);
  return found == ordered_.end() ? nullptr : found->second.pool;
}

DeviceMemory::PoolBytes DeviceMemory::bytes_of(CUmemoryPool pool) const {
  const MutexLock lock(mutex_);
  PoolBytes bytes;
  for (const auto& [begin, memory] : ordered_) {
    if (memory.pool != pool) continue;
    bytes.reserved += memory.size_bytes;
    if (!memory.freed) bytes.used += memory.size_bytes;
  }
  return bytes;
}

}  // namespace vma
