#pragma once

#include "pools/block_pool.hpp"
#include "runtime/runtime_parts.hpp"

#include <vma/error.hpp>
#include <vma/pool.hpp>

#include <atomic>
#include <memory>
#include <utility>

namespace vma {

/// What copies of a Pool share. It may outlive its runtime; then `open` is false.
struct PoolHandle {
  RuntimeParts& parts;
  const std::shared_ptr<std::atomic<bool>> open;
  const std::shared_ptr<BlockPool> pool;

  static Pool make(RuntimeParts& parts, std::shared_ptr<BlockPool> pool) {
    return Pool(std::make_shared<PoolHandle>(PoolHandle{parts, parts.open, std::move(pool)}));
  }
};

/// A call of a pool inside its runtime. Throws: Error{invalid_argument} if there is no handle,
/// {driver_gone} after the end of the runtime.
class PoolEntry {
 public:
  PoolEntry(const PoolHandle* handle, const char* call)
      : handle_(require(handle, call)), entry_(handle_.parts, call) {}

  BlockPool* operator->() const noexcept { return handle_.pool.get(); }
  Machinery& machinery() const noexcept { return *entry_; }
  const std::shared_ptr<BlockPool>& pool() const noexcept { return handle_.pool; }

 private:
  static const PoolHandle& require(const PoolHandle* handle, const char* call) {
    if (handle == nullptr) {
      throw Error(ErrorKind::invalid_argument, call, "this Pool names no pool");
    }
    if (!*handle->open) throw Error(ErrorKind::driver_gone, call, "the runtime was shut down");
    return *handle;
  }

  const PoolHandle& handle_;
  const RuntimeParts::Entry entry_;
};

/// An address in a pool where no block begins is none that the program could free. Throws:
/// Error{unknown_pointer} for it.
void check_not_segment(const Machinery& parts, const void* pointer, const char* call);
/// Frees a block of a pool, an imported one, or other memory after the work that is now enqueued on
/// the stream. Does not block.
void free_in_order(Machinery& parts, void* pointer, Stream stream, const char* call);

}  // namespace vma
