#include "pools/pools.hpp"

#include "base/log.hpp"

#include <vma/error.hpp>

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

Pools::Pools(Driver& driver, Memory& memory, std::function<bool(StreamHandle)> lasts)
    : driver_(driver),
      memory_(memory),
      lasts_(std::move(lasts)),
      table_(memory.registry()),
      retired_(memory.chunks().slow_calls()) {}

Pools::~Pools() {
  const MutexLock lock(mutex_);
  for (const PoolPointer& pool : live_) pool->close();
}

std::vector<Pools::PoolPointer> Pools::all() const {
  const MutexLock lock(mutex_);  // Pools do not retire meanwhile.
  std::vector<PoolPointer> pools = retired_.all();
  pools.insert(pools.end(), live_.begin(), live_.end());
  return pools;
}

Pools::PoolPointer Pools::make(Place at, const PoolOptions& options) {
  memory_.topology().require(at, "vma::make_pool");
  using Life = StreamFrees::Life;
  const Life others = options.streams_last ? Life::promised : Life::unknown;
  const auto lives = [this, others](StreamHandle stream) {
    return lasts_(stream) ? Life::lasts : others;
  };
  auto pool = std::make_shared<BlockPool>(driver_, memory_, table_, retired_, lives, at, options);
  const MutexLock lock(mutex_);
  live_.push_back(pool);
  return pool;
}

Pools::PoolPointer Pools::default_pool(Place at) {
  {
    const MutexLock lock(mutex_);
    const auto found = defaults_.find(at);
    if (found != defaults_.end()) return found->second;
  }
  const PoolPointer made = make(at, {});
  const MutexLock lock(mutex_);
  const auto [place, first] = defaults_.emplace(at, made);
  if (!first) std::erase(live_, made);  // Another thread was first.
  return place->second;
}

Pools::PoolPointer Pools::current(Place at) {
  {
    const MutexLock lock(mutex_);
    const auto found = current_.find(at);
    if (found != current_.end()) return found->second;
  }
  return default_pool(at);
}

std::optional<BlockPlace> Pools::block_around(Address address) const {
  const Segment* const segment = table_.find(address);
  if (segment == nullptr) return std::nullopt;
  const std::uint64_t offset = address - segment->begin;
  const Block* block = nullptr;  // The last one that begins there or before.
  for (std::uint64_t step = offset / SizeClasses::step_bytes + 1; block == nullptr && step > 0;) {
    block = segment->starts[--step].load(std::memory_order_acquire);
  }
  if (block == nullptr) return std::nullopt;
  const std::optional<BlockPlace> place = segment->pool->place_of(*block);
  const bool inside =
      place && place->offset <= offset && offset - place->offset < place->size_bytes;
  return inside ? place : std::nullopt;
}

void Pools::set_current(const PoolPointer& pool) {
  const MutexLock lock(mutex_);
  if (pool->retired()) {
    throw Error(ErrorKind::invalid_argument, "vma::set_current_pool", "the pool was destroyed");
  }
  current_[pool->place()] = pool;
}

void Pools::destroy(const PoolPointer& pool) {
  {
    const MutexLock lock(mutex_);
    for (const auto& [at, each] : defaults_) {
      if (each != pool) continue;
      throw Error(ErrorKind::invalid_argument, "vma::Pool::destroy",
                  "it is the default pool of " + to_string(at) + ", which cannot be destroyed");
    }
    if (!retired_.retire(pool)) {
      throw Error(ErrorKind::invalid_argument, "vma::Pool::destroy", "it was destroyed before");
    }
    std::erase(live_, pool);
    std::erase_if(current_, [&](const auto& place) { return place.second == pool; });
  }
  try {
    if (pool->has_unknown_frees()) {
      Past frees{{{pool, pool->past()}}};
      complete(std::move(frees), memory_.contexts().await_work());
    }
  } catch (const std::exception& error) {  // A later call that waits completes them.
    log(LogLevel::debug, "a pool was destroyed without waiting for its frees: {}", error.what());
  }
  retired_.look(pool.get());
}

std::uint64_t Pools::make_room(Place at) noexcept {
  std::uint64_t bytes = 0;
  try {
    for (const PoolPointer& pool : all()) {
      bytes += pool->make_room(at);
    }
  } catch (const std::exception& error) {
    log(LogLevel::debug, "a pool keeps its memory for now: {}", error.what());
  }
  return bytes;
}

Pools::Past Pools::past(std::uint64_t only_stream) {
  Past past;
  for (const PoolPointer& pool : all()) past.pools.emplace_back(pool, pool->past(only_stream));
  return past;
}

Pools::Past Pools::past_of(StreamHandle stream) noexcept {
  try {
    if (all().empty()) return {};
    const StreamNow now = driver_.stream_now(stream, 0);
    return now.capture == 0 ? past(now.id) : Past();
  } catch (const std::exception& error) {
    log(LogLevel::debug, "pools do not learn that a stream has ended: {}", error.what());
    return {};
  }
}

void Pools::complete(Past past, const std::vector<ContextHandle>& waited) noexcept {
  for (auto& [pool, frees] : past.pools) {
    std::erase_if(frees, [&](const StreamBook::Epoch& each) {
      return std::ranges::find(waited, each.context) == waited.end();
    });
  }
  complete(past);
}

void Pools::complete(const Past& past) noexcept {
  for (const auto& [pool, frees] : past.pools) pool->complete(frees);
  retired_.look_at_all();
}

void Pools::destroy_stream(StreamHandle stream, const std::function<void()>& destroy) {
  const std::vector<PoolPointer> pools = all();
  for (const PoolPointer& pool : pools) pool->leaves(stream);
  try {
    destroy();
  } catch (...) {
    for (const PoolPointer& pool : pools) pool->has_left(stream, false);
    throw;
  }
  for (const PoolPointer& pool : pools) pool->has_left(stream, true);
}

void Pools::check_invariants() {
  for (const PoolPointer& pool : all()) pool->check_invariants();
}

}  // namespace vma
