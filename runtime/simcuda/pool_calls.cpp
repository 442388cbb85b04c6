// Stream-ordered allocation, and the memory pools. A pool keeps nothing that is free: what its
// streams are done with goes back in the next call that waits or allocates.
#include "simcuda/library.hpp"
#include "simcuda/memory.hpp"
#include "simcuda/handle_table.hpp"

#include "base/mutex.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

namespace vma {
namespace {

struct Pool {
  DeviceId device{};
  bool is_default = false;

  Mutex mutex;
  std::map<CUmemPool_attribute, std::uint64_t> set VMART_GUARDED_BY(mutex);
  DeviceMemory::PoolBytes high VMART_GUARDED_BY(mutex);
  std::vector<Accessor> accessors VMART_GUARDED_BY(mutex);  // Its own GPU, and others once each.
};

/// The handles of the pools, and which ones devices use.
struct Pools {
  HandleTable<Pool> all;
  Mutex mutex;
  std::map<DeviceId, CUmemoryPool> defaults VMART_GUARDED_BY(mutex);
  std::map<DeviceId, CUmemoryPool> current VMART_GUARDED_BY(mutex);  // If not the default one.
};

Pools& pools() {
  static Pools& known = *new Pools;
  return known;
}

std::shared_ptr<Pool> pool_at(CUmemoryPool handle) {
  return pools().all.at(handle, CUDA_ERROR_INVALID_VALUE);
}

CUmemoryPool make_pool(DeviceId device, bool is_default) {
  auto pool = std::make_shared<Pool>();
  pool->device = device;
  pool->is_default = is_default;
  pool->accessors.push_back({gpu(index(device)), Access::read_write});
  return native_of<CUmemoryPool>(pools().all.add(std::move(pool)));
}

CUmemoryPool default_pool(DeviceId device) {
  const MutexLock lock(pools().mutex);
  CUmemoryPool& pool = pools().defaults[device];
  if (pool == nullptr) pool = make_pool(device, true);
  return pool;
}

CUmemoryPool current_pool(DeviceId device) {
  {
    const MutexLock lock(pools().mutex);
    const auto found = pools().current.find(device);
    if (found != pools().current.end()) return found->second;
  }
  return default_pool(device);
}

DeviceId device_of_stream(CUstream stream) {
  const BoundStream bound = stream_of(stream);
  return sim().context_device(is_none(bound.context) ? sim().stream_context(bound.handle)
                                                     : bound.context);
}

void allocate_from(CUmemoryPool handle, CUdeviceptr* begin, std::size_t size_bytes,
                   CUstream stream) {
  required(begin);
  const auto pool = pool_at(handle);
  if (sim().is_capturing(stream_of(stream))) refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  require_working(current_context());
  DeviceMemory& memory = DeviceMemory::of_process();
  const MutexLock lock(pool->mutex);
  *begin = to_integer(memory.allocate_ordered(pool->device, size_bytes, handle, pool->accessors));
  const DeviceMemory::PoolBytes now = memory.bytes_of(handle);
  pool->high.reserved = std::max(pool->high.reserved, now.reserved);
  pool->high.used = std::max(pool->high.used, now.used);
}

/// Access is for reading and writing, and is not taken away.
void set_access(CUmemoryPool handle, const CUmemAccessDesc& entry) {
  if (entry.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) refuse(CUDA_ERROR_NOT_SUPPORTED);
  const auto pool = pool_at(handle);
  const Accessor accessor{location_of(entry.location), Access::read_write};
  const MutexLock lock(pool->mutex);
  if (std::ranges::find(pool->accessors, accessor.who, &Accessor::who) != pool->accessors.end()) {
    return;
  }
  DeviceMemory::of_process().grant(handle, accessor);
  pool->accessors.push_back(accessor);
}

bool is_policy(CUmemPool_attribute which) {
  return which <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

std::uint64_t value_of(CUmemoryPool handle, CUmemPool_attribute which) {
  const auto pool = pool_at(handle);
  const DeviceMemory::PoolBytes now = DeviceMemory::of_process().bytes_of(handle);
  const MutexLock lock(pool->mutex);
  switch (which) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: return now.reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return std::max(pool->high.reserved, now.reserved);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return now.used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return std::max(pool->high.used, now.used);
    default: break;
  }
  const auto found = pool->set.find(which);
  if (found != pool->set.end()) return found->second;
  return is_policy(which) ? 1 : 0;
}

void set_value(CUmemoryPool handle, CUmemPool_attribute which, const void* value) {
  const auto pool = pool_at(handle);
  std::uint64_t words = 0;
  std::memcpy(&words, required(value), is_policy(which) ? sizeof(int) : sizeof words);
  const MutexLock lock(pool->mutex);
  switch (which) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: refuse(CUDA_ERROR_INVALID_VALUE);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (words != 0) refuse(CUDA_ERROR_INVALID_VALUE);
      (which == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? pool->high.used : pool->high.reserved) = 0;
      return;
    default: pool->set[which] = words;
  }
}

}  // namespace

SIMCUDA_STREAM_CALL(cuMemAllocAsync, _ptsz,
                    (CUdeviceptr * begin, std::size_t bytes, CUstream stream),
                    (begin, bytes, stream)) {
  allocate_from(current_pool(device_of_stream(stream)), begin, bytes, stream);
}
SIMCUDA_STREAM_CALL(cuMemAllocFromPoolAsync, _ptsz,
                    (CUdeviceptr * begin, std::size_t bytes, CUmemoryPool pool, CUstream stream),
                    (begin, bytes, pool, stream)) {
  allocate_from(pool, begin, bytes, stream);
}
SIMCUDA_STREAM_CALL(cuMemFreeAsync, _ptsz, (CUdeviceptr begin, CUstream stream), (begin, stream)) {
  require_working(current_context());
  DeviceMemory::of_process().free_after(stream_of(stream), Address{begin});
}

SIMCUDA_CALL(cuDeviceGetDefaultMemPool, (CUmemoryPool * pool, CUdevice device), (pool, device)) {
  *required(pool) = default_pool(device_of(device));
}
SIMCUDA_CALL(cuDeviceGetMemPool, (CUmemoryPool * pool, CUdevice device), (pool, device)) {
  *required(pool) = current_pool(device_of(device));
}
SIMCUDA_CALL(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool), (device, pool)) {
  if (pool_at(pool)->device != device_of(device)) refuse(CUDA_ERROR_INVALID_VALUE);
  const MutexLock lock(pools().mutex);
  pools().current[device_of(device)] = pool;
}
// Graphs of the simulator have no memory of their own.
SIMCUDA_CALL(cuDeviceGraphMemTrim, (CUdevice device), (device)) {
  device_of(device);
}
// What is not usual about a pool has no effect.
SIMCUDA_CALL(cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps* properties),
             (pool, properties)) {
  if (required(properties)->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    refuse(CUDA_ERROR_NOT_SUPPORTED);
  }
  required(pool);
  *pool = make_pool(device_of(properties->location.id), false);
}
SIMCUDA_CALL(cuMemPoolDestroy, (CUmemoryPool pool), (pool)) {
  if (pool_at(pool)->is_default) refuse(CUDA_ERROR_INVALID_VALUE);
  const auto destroyed = pools().all.take(pool);
  const MutexLock lock(pools().mutex);
  const auto current = pools().current.find(destroyed->device);
  if (current != pools().current.end() && current->second == pool) pools().current.erase(current);
}
SIMCUDA_CALL(cuMemPoolTrimTo, (CUmemoryPool pool, std::size_t), (pool, 0)) {
  pool_at(pool);
  DeviceMemory::of_process().drain();
}
SIMCUDA_CALL(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute which, void* value),
             (pool, which, value)) {
  set_value(pool, which, value);
}
SIMCUDA_CALL(cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute which, void* value),
             (pool, which, value)) {
  const std::uint64_t words = value_of(pool, which);
  std::memcpy(required(value), &words, is_policy(which) ? sizeof(int) : sizeof words);
}
SIMCUDA_CALL(cuMemPoolSetAccess,
             (CUmemoryPool pool, const CUmemAccessDesc* entries, std::size_t count),
             (pool, entries, count)) {
  for (std::size_t i = 0; i < count; ++i) set_access(pool, required(entries)[i]);
}
SIMCUDA_CALL(cuMemPoolGetAccess,
             (CUmemAccess_flags * flags, CUmemoryPool pool, CUmemLocation* location),
             (flags, pool, location)) {
  const auto known = pool_at(pool);
  const Place at = location_of(*required(location));
  const MutexLock lock(known->mutex);
  const bool has =
      std::ranges::find(known->accessors, at, &Accessor::who) != known->accessors.end();
  *required(flags) = has ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

}  // namespace vma
