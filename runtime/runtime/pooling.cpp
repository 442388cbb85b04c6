#include "runtime/pooling.hpp"

#include <vma/pool.hpp>
#include <vma/runtime.hpp>

#include "runtime/runtime_parts.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace vma {

namespace {

/// Whether a group has moved except what was given back meanwhile.
bool names_only_freed_memory(const std::exception& failure) noexcept {
  const auto* const error = dynamic_cast<const Error*>(&failure);
  if (error == nullptr || error->group() == nullptr) return false;
  return std::ranges::all_of(error->group()->requests, [](const RequestReport& each) {
    return !each.error || each.error->kind() == ErrorKind::unknown_pointer;
  });
}

}  // namespace

void check_not_segment(const Machinery& parts, const void* pointer, const char* call) {
  if (parts.pools.segment_around(address_of(pointer)) == nullptr) return;
  throw Error(ErrorKind::unknown_pointer, call,
              fmt::format("no block of a pool begins at {}", fmt::ptr(pointer)));
}

void free_in_order(Machinery& parts, void* pointer, Stream stream, const char* call) {
  const Address address = address_of(pointer);
  if (Block* const block = parts.pools.block_at(address)) {
    return parts.pools.deallocate(*block, handle_of(stream));
  }
  check_not_segment(parts, pointer, call);
  const BoundStream bound = parts.launcher.bind(stream);
  if (parts.imported.owns(address)) return parts.imported.free_async(address, bound);
  parts.memory.free_async(address, bound);
}

inline namespace v1 {

void* Pool::allocate(std::size_t bytes, Stream stream, std::size_t alignment) const {
  const PoolEntry pool(handle_.get(), "vma::Pool::allocate");
  return to_pointer(pool->allocate(bytes, handle_of(stream), alignment));
}

void Pool::deallocate(void* pointer, Stream stream) const {
  if (pointer == nullptr) return;
  if (ProcessExit::begun()) return ProcessExit::hold_back();
  const PoolEntry pool(handle_.get(), "vma::Pool::deallocate");
  free_in_order(pool.machinery(), pointer, stream, "vma::Pool::deallocate");
}

void* Pool::allocate_now(std::size_t bytes, std::size_t alignment) const {
  const PoolEntry pool(handle_.get(), "vma::Pool::allocate_now");
  return to_pointer(pool->allocate_now(bytes, alignment, false));
}

void Pool::deallocate_now(void* pointer) const {
  constexpr const char* call = "vma::Pool::deallocate_now";
  if (pointer == nullptr) return;
  if (ProcessExit::begun()) return ProcessExit::hold_back();
  const PoolEntry pool(handle_.get(), call);
  if (Block* const block = pool.machinery().pools.block_at(address_of(pointer))) {
    return Pools::free_now(*block);
  }
  throw Error(ErrorKind::unknown_pointer, call,
              fmt::format("no block of a pool begins at {}", fmt::ptr(pointer)));
}

void Pool::order(Stream after, Stream before) const {
  const PoolEntry pool(handle_.get(), "vma::Pool::order");
  pool->order(handle_of(after), handle_of(before));
}

std::size_t Pool::trim(std::size_t keep_bytes) const {
  const PoolEntry pool(handle_.get(), "vma::Pool::trim");
  return pool->trim(keep_bytes);
}

void Pool::synchronize() const {
  const PoolEntry pool(handle_.get(), "vma::Pool::synchronize");
  Pools& pools = pool.machinery().pools;
  Pools::Past past = pools.past();
  pools.complete(std::move(past), pool.machinery().memory.contexts().await_work());
}

PoolStats Pool::stats() const {
  const PoolEntry pool(handle_.get(), "vma::Pool::stats");
  return pool->stats();
}

void Pool::reset_high_marks() const {
  const PoolEntry pool(handle_.get(), "vma::Pool::reset_high_marks");
  pool->reset_high_marks();
}

Place Pool::place() const {
  const PoolEntry pool(handle_.get(), "vma::Pool::place");
  return pool->place();
}

PoolOptions Pool::options() const {
  const PoolEntry pool(handle_.get(), "vma::Pool::options");
  return pool->options();
}

void Pool::set_release_threshold(std::size_t bytes) const {
  const PoolEntry pool(handle_.get(), "vma::Pool::set_release_threshold");
  pool->set_release_threshold(bytes);
}

void Pool::set_reuse(const ReusePolicies& reuse) const {
  const PoolEntry pool(handle_.get(), "vma::Pool::set_reuse");
  pool->set_reuse(reuse);
}

void Pool::destroy() {
  const PoolEntry pool(handle_.get(), "vma::Pool::destroy");
  pool.machinery().pools.destroy(pool.pool());
}

bool operator==(const Pool& a, const Pool& b) noexcept {
  const auto pool_of = [](const Pool& each) {
    return each.handle_ == nullptr ? nullptr : each.handle_->pool.get();
  };
  return pool_of(a) == pool_of(b);
}

Pool Runtime::make_pool(Place where, const PoolOptions& options) {
  const RuntimeParts::Entry entry(*parts_, "vma::make_pool");
  Pool made = PoolHandle::make(*parts_, entry->pools.make(where, options));
  entry->migrator.prepare_suspensions();  // As an allocation does: its segments are none.
  return made;
}

Pool Runtime::default_pool(Place where) {
  const RuntimeParts::Entry entry(*parts_, "vma::default_pool");
  return PoolHandle::make(*parts_, entry->pools.default_pool(where));
}

Pool Runtime::current_pool(Place where) {
  const RuntimeParts::Entry entry(*parts_, "vma::current_pool");
  return PoolHandle::make(*parts_, entry->pools.current(where));
}

void Runtime::set_current_pool(const Pool& pool) {
  const PoolEntry named(pool.handle_.get(), "vma::set_current_pool");
  named.machinery().pools.set_current(named.pool());
}

void* Runtime::alloc_async(std::size_t bytes, Stream stream) {
  constexpr const char* call = "vma::alloc_async";
  const RuntimeParts::Entry entry(*parts_, call);
  const ContextHandle context = parts_->driver->stream_context(handle_of(stream));
  const Place at = gpu(index(parts_->driver->context_device(context)));
  entry->topology.require(at, call);
  return to_pointer(
      entry->pools.current(at)->allocate(bytes, handle_of(stream), SizeClasses::step_bytes));
}

GroupReport Runtime::migrate(const Pool& pool, Place to, const MigrateOptions& options) {
  constexpr const char* call = "vma::migrate";
  std::vector<MoveRequest> requests;
  std::shared_ptr<BlockPool> moving;
  Place home;
  {
    const PoolEntry named(pool.handle_.get(), call);
    named.machinery().topology.require(to, call);
    moving = named.pool();
    home = moving->move_to(to);  // Before the segments are listed, so that new ones are there.
    try {
      for (const auto& [begin, offset, size_bytes] : moving->segments()) {
        requests.push_back({to_pointer(begin), to, offset, size_bytes});
      }
    } catch (...) {
      moving->move_back(to, home);
      throw;
    }
  }
  try {
    return requests.empty() ? GroupReport{} : migrate(requests, options);
  } catch (const std::exception& error) {
    if (!names_only_freed_memory(error)) moving->move_back(to, home);
    throw;
  }
}

}  // namespace v1
}  // namespace vma
