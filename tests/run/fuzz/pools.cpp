// Memory that is allocated in the order of streams.
#include "world.hpp"

#include <algorithm>
#include <cstring>

namespace fuzz {
namespace {

void find_pools(World& world) {
  for (int device = 0; device < 2; ++device) {
    Pool found;
    found.device = device;
    found.standard = true;
    world.note(driver.f_cuDeviceGetDefaultMemPool(&found.handle, device),
               "cuDeviceGetDefaultMemPool %d", device);
    world.pools.push_back(found);
  }
}

void grant_access(World& world, Pool& pool) {
  CUmemAccessDesc entry{};
  entry.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1 - pool.device};
  entry.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  pool.everywhere = world.note(driver.f_cuMemPoolSetAccess(pool.handle, &entry, 1),
                               "cuMemPoolSetAccess") == CUDA_SUCCESS;
}

void create_pool(World& world) {
  Pool made;
  made.device = static_cast<int>(world.random.below(2));
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, made.device};
  world.note(driver.f_cuMemPoolCreate(&made.handle, &properties), "cuMemPoolCreate p%zu device %d",
             world.pools.size(), made.device);
  if (world.random.one_in(2)) {
    cuuint64_t threshold = world.random.one_in(2) ? ~cuuint64_t{0} : cuuint64_t{8} << 20;
    world.note(
        driver.f_cuMemPoolSetAttribute(made.handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
        "cuMemPoolSetAttribute");
  }
  if (world.random.one_in(2)) grant_access(world, made);
  world.pools.push_back(made);
}

/// The pool that cuMemAllocAsync uses; none if it is not among the known ones.
std::size_t current_pool(World& world, int device) {
  CUmemoryPool now = nullptr;
  world.note(driver.f_cuDeviceGetMemPool(&now, device), "cuDeviceGetMemPool %d", device);
  const auto found = std::ranges::find_if(
      world.pools, [&](const Pool& pool) { return pool.alive && pool.handle == now; });
  return static_cast<std::size_t>(found - world.pools.begin());
}

void allocate_from(World& world, std::size_t number) {
  const Pool& pool = world.pools[number];
  const std::size_t context = world.any_context();
  if (world.contexts[context].device != pool.device) return;
  const std::size_t stream = world.any_stream(context);
  const CUstream on = world.streams[stream].handle;
  Buffer made;
  made.bytes = any_size(world.random);
  made.device = pool.device;
  made.kind = Kind::pooled;
  made.pool = number;
  made.everywhere = pool.everywhere;
  made.last = stream;
  const std::size_t buffer = world.buffers.size();
  world.enter(context);
  const bool by_stream = world.random.one_in(2) && current_pool(world, pool.device) == number;
  const CUresult result =
      by_stream ? driver.f_cuMemAllocAsync(&made.begin, made.bytes, on)
                : driver.f_cuMemAllocFromPoolAsync(&made.begin, made.bytes, pool.handle, on);
  world.note(result, "cuMemAlloc%s b%zu %zu p%zu on s%zu", by_stream ? "Async" : "FromPoolAsync",
             buffer, made.bytes, number, stream);
  if (result != CUDA_SUCCESS) return;
  world.add_buffer(made);
  world.fill_all(buffer, world.random.one_in(2) ? stream : world.any_stream(context));
}

void count_pool(World& world, std::size_t number) {
  const Pool& pool = world.pools[number];
  cuuint64_t used = 0;
  cuuint64_t reserved = 0;
  cuuint64_t used_high = 0;
  cuuint64_t reserved_high = 0;
  std::size_t own = 0;
  for (const Buffer& buffer : world.buffers) {
    if (buffer.alive && buffer.kind == Kind::pooled && buffer.pool == number) own += buffer.bytes;
  }
  const auto value = [&](CUmemPool_attribute which, cuuint64_t& out) {
    world.note(driver.f_cuMemPoolGetAttribute(pool.handle, which, &out),
               "cuMemPoolGetAttribute p%zu %d", number, static_cast<int>(which));
  };
  value(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, used);
  value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, reserved);
  value(CU_MEMPOOL_ATTR_USED_MEM_HIGH, used_high);
  value(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, reserved_high);
  world.say("uses what it has %d, and not much more %d, has what it uses %d, high %d and %d",
            used >= own, used <= own + (std::size_t{64} << 20), reserved >= used, used_high >= used,
            reserved_high >= reserved);
  cuuint64_t zero = 0;
  if (world.random.one_in(4)) {
    world.note(driver.f_cuMemPoolSetAttribute(pool.handle, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero),
               "cuMemPoolSetAttribute");
  }
}

void destroy_pool(World& world, std::size_t number) {
  Pool& pool = world.pools[number];
  const CUresult result = driver.f_cuMemPoolDestroy(pool.handle);
  world.note(result, "cuMemPoolDestroy p%zu", number);
  if (result == CUDA_SUCCESS) pool.alive = false;  // Its memory lives on.
}

void misuse_pool(World& world) {
  CUdeviceptr out = 0;
  cuuint64_t word = 5;
  const Pool& pool = world.random.of(world.pools);
  switch (world.random.below(3)) {
    case 0:
      world.note(driver.f_cuMemAllocFromPoolAsync(&out, std::size_t{1} << 44, world.pools[0].handle,
                                                  nullptr),
                 "an allocation far too large");
      return;
    case 1:
      if (pool.alive) return;
      world.note(driver.f_cuMemAllocFromPoolAsync(&out, 4 << 20, pool.handle, nullptr),
                 "an allocation from a pool that is gone");
      return;
    default:
      if (!pool.alive) return;
      world.note(driver.f_cuMemPoolSetAttribute(pool.handle, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &word),
                 "a high mark of 5");
  }
}

}  // namespace

void use_pools(World& world) {
  world.enter(world.any_context());
  if (world.pools.empty()) find_pools(world);
  std::vector<std::size_t> living;
  for (std::size_t i = 0; i < world.pools.size(); ++i) {
    if (world.pools[i].alive) living.push_back(i);
  }
  const std::size_t pool = world.random.of(living);
  const std::size_t buffers = static_cast<std::size_t>(std::ranges::count_if(
      world.buffers, [](const Buffer& each) { return each.alive && each.kind == Kind::pooled; }));
  switch (world.random.below(12)) {
    case 0:
      if (living.size() < 5) create_pool(world);
      return;
    case 1:
      if (world.alone()) count_pool(world, pool);
      return;
    case 2:
      world.note(driver.f_cuMemPoolTrimTo(world.pools[pool].handle, world.random.below(16) << 20),
                 "cuMemPoolTrimTo p%zu", pool);
      return;
    case 3:
      if (world.alone()) {
        world.note(driver.f_cuDeviceSetMemPool(world.pools[pool].device, world.pools[pool].handle),
                   "cuDeviceSetMemPool p%zu", pool);
      }
      return;
    case 4: return misuse_pool(world);
    case 5: return destroy_pool(world, pool);
    default:
      if (buffers < 10) allocate_from(world, pool);
  }
}

}  // namespace fuzz
