#include "interpose/program_pools.hpp"

#include "interpose/driver_library.hpp"
#include "interpose/process.hpp"
#include "interpose/settings.hpp"
#include "interpose/vmart_library.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

namespace vma::interpose {
namespace {

/// Whether memory of vmart can stand for that of such a pool: on a GPU, for this process only,
/// without a limit. Whatever newer drivers add is unusual, too.
bool is_usual(const CUmemPoolProps& properties) noexcept {
  CUmemPoolProps usual{};
  usual.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  usual.location = {CU_MEM_LOCATION_TYPE_DEVICE, properties.location.id};
  return std::memcmp(&usual, &properties, sizeof usual) == 0;
}

/// Zero if the driver does not tell.
std::uint64_t drivers_value(CUmemoryPool pool, CUmemPool_attribute attribute) noexcept {
  std::uint64_t words = 0;  // Some attributes are an int, which is written to the lower half.
  return call_driver<EntryPoint::cuMemPoolGetAttribute>(pool, attribute, &words) == CUDA_SUCCESS
             ? words
             : 0;
}

/// The pool of the stream's GPU. Null without a current context.
CUmemoryPool current_pool(const DriverLibrary& driver, CUstream stream) noexcept {
  const std::optional<int> device = ProgramStreams::device_of(stream);
  CUmemoryPool pool = nullptr;
  return device && driver.cuDeviceGetMemPool_plain(&pool, *device) == CUDA_SUCCESS ? pool : nullptr;
}

/// The GPU whose default pool it is; negative if it is none.
int device_of_default(CUmemoryPool pool) noexcept {
  CUmemoryPool standard = nullptr;
  int device = 0;
  while (DriverLibrary::get()->cuDeviceGetDefaultMemPool_plain(&standard, device) == CUDA_SUCCESS) {
    if (standard == pool) return device;
    ++device;
  }
  return -1;
}

}  // namespace

// --- One pool

ProgramPool::~ProgramPool() {
  const RunTable* const vmart = VmartLibrary::loaded();
  if (vmart != nullptr) vmart->vmart_pool_release(pool_.load());
}

const vmart_pool* ProgramPool::make() noexcept {
  if (const vmart_pool* const known = made()) return known;
  const RunTable* const vmart = VmartLibrary::load();
  if (vmart == nullptr || refused_.load(std::memory_order_relaxed)) return nullptr;
  vmart_pool_options options{};
  options.size_bytes = sizeof options;
  options.streams_last = 1;  // They live until `forget_stream`.
  vmart_pool* created = nullptr;
  const vmart_status status =
      vmart->vmart_pool_create({VMART_GPU, device_}, "run", &options, &created);
  if (status != VMART_OK) {
    refused_ = true;
    memory_.note_refusal(status);
    return nullptr;
  }
  // No lock: opening the runtime loads libraries, whose constructors may call a hook.
  vmart_pool* other = nullptr;
  if (!pool_.compare_exchange_strong(other, created)) {
    vmart->vmart_pool_destroy(created);
    vmart->vmart_pool_release(created);
    return other;
  }
  follow();
  return created;
}

void ProgramPool::follow() noexcept {
  if (made() == nullptr) return;
  const auto forbids = [&](CUmemPool_attribute attribute) {
    return drivers_value(drivers_, attribute) == 0 ? 1 : 0;
  };
  vmart_pool_options options{};
  options.size_bytes = sizeof options;
  options.no_event_dependencies = forbids(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES);
  options.no_opportunistic = forbids(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC);
  options.no_internal_dependencies = forbids(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES);
  const std::uint64_t threshold = drivers_value(drivers_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
  threshold_ = threshold;
  const RunTable* const vmart = VmartLibrary::loaded();
  vmart->vmart_pool_set_reuse(made(), &options);
  vmart->vmart_pool_set_release_threshold(made(), threshold);
}

vmart_pool_stats ProgramPool::stats() const noexcept {
  vmart_pool_stats now{};
  now.size_bytes = sizeof now;
  const RunTable* const vmart = VmartLibrary::loaded();
  if (vmart != nullptr && made() != nullptr) vmart->vmart_pool_stats_get(made(), &now);
  return now;
}

std::uint64_t ProgramPool::counted(CUmemPool_attribute attribute) noexcept {
  const std::lock_guard lock(marks_mutex_);
  const vmart_pool_stats now = stats();
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: return now.reserved_bytes;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return std::max<std::uint64_t>(reserved_high_, now.reserved_high_bytes);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return now.used_bytes;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return std::max<std::uint64_t>(used_high_, now.used_high_bytes);
    default: return 0;
  }
}

void ProgramPool::reset(CUmemPool_attribute attribute) noexcept {
  const RunTable* const vmart = VmartLibrary::loaded();
  if (vmart == nullptr || made() == nullptr) return;
  const std::lock_guard lock(marks_mutex_);
  const vmart_pool_stats now = stats();
  reserved_high_ = std::max<std::uint64_t>(reserved_high_, now.reserved_high_bytes);
  used_high_ = std::max<std::uint64_t>(used_high_, now.used_high_bytes);
  (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? used_high_ : reserved_high_) = 0;
  vmart->vmart_pool_reset_high_marks(made());
}

std::uint64_t ProgramPool::trim(std::uint64_t keep_bytes) noexcept {
  const RunTable* const vmart = VmartLibrary::loaded();
  if (vmart == nullptr || made() == nullptr) return 0;
  vmart->vmart_pool_trim(made(), keep_bytes, nullptr);
  return stats().reserved_bytes;
}

bool ProgramPool::settle() noexcept {
  const std::uint64_t threshold = threshold_;
  if (stats().reserved_bytes <= threshold) return true;
  trim(threshold);
  const vmart_pool_stats left = stats();
  return left.pending_bytes == 0 || left.reserved_bytes <= threshold;
}

void ProgramPool::destroy() noexcept {
  const RunTable* const vmart = VmartLibrary::loaded();
  if (vmart != nullptr && made() != nullptr) vmart->vmart_pool_destroy(made());
}

// --- All pools

CUdeviceptr ProgramPools::allocate(std::size_t bytes, CUstream stream, const void* caller,
                                   std::optional<CUmemoryPool> pool, bool& full) noexcept try {
  const ProgramExit::Call call;
  const DriverLibrary* const driver = DriverLibrary::get();
  if (!Settings::get().pools || !ProgramMemory::takes(bytes, caller) || driver == nullptr ||
      ProgramStreams::captures(*driver, stream)) {
    return 0;
  }
  const CUmemoryPool from = pool ? *pool : current_pool(*driver, stream);
  const auto known = from != nullptr ? find_or_adopt(from) : nullptr;
  const vmart_pool* const beside = known != nullptr ? known->make() : nullptr;
  const RunTable* const vmart = VmartLibrary::loaded();
  if (beside == nullptr || vmart == nullptr) return 0;
  void* block = nullptr;
  const vmart_status status = memory_.with_room(
      [&] { return vmart->vmart_pool_allocate(beside, bytes, 0, stream, &block); });
  if (status != VMART_OK) {
    // An invalid call is one that the driver refuses, too, or that races with the pool's end.
    if (status != VMART_INVALID_ARGUMENT) memory_.note_refusal(status);
    full = status == VMART_OUT_OF_MEMORY && limits_.spills(known->device());
    return 0;
  }
  streams_.begin();
  ProgramAllocation made;
  made.begin = reinterpret_cast<CUdeviceptr>(block);
  made.bytes = bytes;
  made.device = known->device();
  made.pool = from;
  if (memory_.add(made)) return made.begin;
  vmart->vmart_free_async(block, stream);
  return 0;
} catch (const std::exception&) {
  return 0;
}

void ProgramPools::created(CUmemoryPool pool, const CUmemPoolProps& properties) noexcept try {
  if (is_forked_child()) return;
  auto beside = is_usual(properties)
                    ? std::make_shared<ProgramPool>(memory_, pool, properties.location.id)
                    : nullptr;
  const std::lock_guard lock(mutex_);
  devices_.insert_or_assign(pool, RoomNeed::at(properties.location, 0).device.value());
  if (Settings::get().pools) pools_.insert_or_assign(pool, std::move(beside));
} catch (const std::exception&) {  // Unknown, so it is the driver's.
}

std::shared_ptr<ProgramPool> ProgramPools::find(CUmemoryPool pool) noexcept {
  if (!Settings::get().pools || is_forked_child()) return nullptr;
  const std::shared_lock lock(mutex_);
  const auto found = pools_.find(pool);
  return found != pools_.end() ? found->second : nullptr;
}

std::shared_ptr<ProgramPool> ProgramPools::find_or_adopt(CUmemoryPool pool) {
  {
    const std::shared_lock lock(mutex_);
    const auto found = pools_.find(pool);
    if (found != pools_.end()) return found->second;
  }
  // A default pool, which nobody creates, or one that was imported, for example.
  const int device = device_of_default(pool);
  auto beside = device >= 0 ? std::make_shared<ProgramPool>(memory_, pool, device) : nullptr;
  const std::lock_guard lock(mutex_);
  return pools_.emplace(pool, std::move(beside)).first->second;
}

std::shared_ptr<ProgramPool> ProgramPools::take(CUmemoryPool pool) noexcept {
  if (!Settings::get().pools || is_forked_child()) return nullptr;
  const std::lock_guard lock(mutex_);
  auto found = pools_.extract(pool);
  return found.empty() ? nullptr : std::move(found.mapped());
}

void ProgramPools::put_back(CUmemoryPool pool, std::shared_ptr<ProgramPool> taken) noexcept try {
  const std::lock_guard lock(mutex_);
  pools_.insert_or_assign(pool, std::move(taken));
} catch (const std::exception&) {  // Unknown, so it is the driver's.
}

void ProgramPools::destroyed(const std::shared_ptr<ProgramPool>& taken) noexcept try {
  taken->destroy();
  std::vector<std::shared_ptr<ProgramPool>> empty;
  for (const auto& pool : all_destroyed()) {
    if (pool->counted(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0) empty.push_back(pool);
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(destroyed_, [&](const auto& pool) { return std::ranges::count(empty, pool) > 0; });
  destroyed_.push_back(taken);
} catch (const std::exception&) {  // Its blocks count as free.
}

std::vector<std::shared_ptr<ProgramPool>> ProgramPools::all_destroyed() noexcept try {
  if (is_forked_child()) return {};
  const std::shared_lock lock(mutex_);
  return destroyed_;
} catch (const std::exception&) {
  return {};
}

std::vector<std::shared_ptr<ProgramPool>> ProgramPools::all() noexcept try {
  std::vector<std::shared_ptr<ProgramPool>> found;
  if (!Settings::get().pools || is_forked_child()) return found;
  const std::shared_lock lock(mutex_);
  for (const auto& [pool, beside] : pools_) {
    if (beside != nullptr && beside->made() != nullptr) found.push_back(beside);
  }
  return found;
} catch (const std::exception&) {
  return {};
}

void ProgramPools::settle_all() noexcept {
  memory_.pools_to_settle() = false;
  for (const auto& pool : all()) {
    if (!pool->settle()) memory_.pools_to_settle() = true;
  }
}

std::optional<int> ProgramPools::device_of(CUmemoryPool pool) noexcept {
  if (pool == nullptr) return std::nullopt;
  {
    const std::shared_lock lock(mutex_);
    const auto found = devices_.find(pool);
    if (found != devices_.end()) return found->second;
  }
  const int device = device_of_default(pool);
  return device >= 0 ? std::optional(device) : std::nullopt;
}

std::uint64_t ProgramPools::bytes_of(int device) noexcept {
  std::uint64_t bytes = 0;
  for (const auto& pools : {all(), all_destroyed()}) {
    for (const auto& pool : pools) {
      if (pool->device() == device) bytes += pool->counted(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    }
  }
  return bytes;
}

void ProgramPools::make_room(int device) noexcept {
  for (const auto& pool : all()) {
    if (pool->device() == device) pool->trim(0);
  }
}

void ProgramPools::forget_stream(CUstream stream) noexcept {
  const RunTable* const vmart = VmartLibrary::loaded();
  if (vmart != nullptr && Settings::get().pools) vmart->vmart_pool_forget_stream(stream);
}

}  // namespace vma::interpose
