#include "pools/retired_pools.hpp"

#include "base/log.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {

RetiredPools::~RetiredPools() {
  for (const PoolPointer& pool : all()) pool->close();
}

bool RetiredPools::retire(const PoolPointer& pool) {
  const MutexLock lock(mutex_);  // Until it is entered, the last use may end, and be looked for.
  entries_.reserve(entries_.size() + 1);
  if (!pool->retire()) return false;
  entries_.push_back({pool});
  return true;
}

std::vector<RetiredPools::PoolPointer> RetiredPools::all() const {
  std::vector<PoolPointer> pools;
  const MutexLock lock(mutex_);
  for (const Entry& entry : entries_) pools.push_back(entry.pool);
  return pools;
}

RetiredPools::PoolPointer RetiredPools::find(const BlockPool* pool) const noexcept {
  const MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.pool.get() == pool) return entry.pool;
  }
  return nullptr;
}

void RetiredPools::look(const BlockPool* pool) noexcept {
  const PoolPointer kept = find(pool);
  if (!kept) return;
  try {
    kept->give_back_all();
    const BlockPool::Rest rest = kept->rest();
    if (rest == BlockPool::Rest::none) return end(pool);
    if (rest != BlockPool::Rest::held) watch(kept, rest == BlockPool::Rest::idle);
  } catch (const std::exception& error) {
    log(LogLevel::debug, "a destroyed pool keeps its memory for now: {}", error.what());
  }
}

void RetiredPools::look_at_all() noexcept {
  try {
    for (const PoolPointer& pool : all()) look(pool.get());
  } catch (const std::exception& error) {
    log(LogLevel::debug, "destroyed pools keep their memory for now: {}", error.what());
  }
}

/// The thread polls without the turn, or with it, so it only asks; it gives back in the job.
void RetiredPools::watch(const PoolPointer& pool, bool idle) {
  constexpr int polls_when_idle = 50;  // What is pinned or imported may be so for hours.
  if (!set_watched(pool.get(), true)) return;
  try {
    const auto ready = [pool, left = idle ? polls_when_idle : 0]() mutable {
      return --left < 0 && pool->ask() != BlockPool::Rest::pending;
    };
    queue_.post_when(ready, [this, pool] {
      set_watched(pool.get(), false);
      look(pool.get());
    });
  } catch (...) {
    set_watched(pool.get(), false);
    throw;
  }
}

/// Whether that is new.
bool RetiredPools::set_watched(const BlockPool* pool, bool watched) noexcept {
  const MutexLock lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.pool.get() == pool) return std::exchange(entry.watched, watched) != watched;
  }
  return false;
}

/// Two calls may see that nothing is left; the pool is closed once.
void RetiredPools::end(const BlockPool* pool) noexcept {
  PoolPointer last;  // Destroyed without the lock.
  {
    const MutexLock lock(mutex_);
    const auto found = std::ranges::find_if(
        entries_, [&](const Entry& entry) { return entry.pool.get() == pool; });
    if (found == entries_.end()) return;
    last = std::move(found->pool);
    entries_.erase(found);
  }
  last->close();
}

}  // namespace vma
