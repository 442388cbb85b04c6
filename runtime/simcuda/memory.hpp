#pragma once

#include "simcuda/boundary.hpp"

#include "base/ids.hpp"
#include "base/mutex.hpp"
#include "driver/driver.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace vma {

/// The properties of chunks, which the simulator does not tell. Any thread.
class ChunkProperties {
 public:
  static ChunkProperties& of_process();

  void created(ChunkHandle chunk, const CUmemAllocationProp& properties);
  /// One more reference to a chunk, which may be unknown so far and is shown at the address.
  void retained(ChunkHandle chunk, Address shown_at);
  void released(ChunkHandle chunk);
  CUmemAllocationProp of(ChunkHandle chunk) const;

 private:
  struct Known {
    CUmemAllocationProp properties{};
    int references = 0;
  };
  mutable Mutex mutex_;
  std::map<ChunkHandle, Known> chunks_ VMART_GUARDED_BY(mutex_);
};

/// Device memory of cuMemAlloc and of stream-ordered allocation. The latter consists of chunks,
/// because freeing the simulator's plain memory waits for the context. Any thread.
class DeviceMemory {
 public:
  static DeviceMemory& of_process();

  Address allocate(ContextHandle context, std::size_t size_bytes);
  /// Memory of a pool, on its GPU, for that and the others among `accessors`.
  Address allocate_ordered(DeviceId device, std::size_t size_bytes, CUmemoryPool pool,
                           const std::vector<Accessor>& accessors);
  /// All memory of the pool is the accessor's from now on.
  void grant(CUmemoryPool pool, const Accessor& accessor);
  /// Either kind of memory. Blocks: for plain memory, until the context's work has ended.
  void free(Address begin);
  /// Frees the plain memory of a context that is about to be destroyed. Blocks: as `free`.
  void free_all_of(ContextHandle context);
  /// Plain memory of one context becomes that of another, which shares it.
  void hand_over(ContextHandle from, ContextHandle to);
  /// Frees once the work that is now in the stream has ended.
  void free_after(BoundStream stream, Address begin);
  /// Frees what the streams are done with.
  void drain();
  /// The context that plain memory was allocated in; none for other memory.
  ContextHandle context_of(Address begin) const;
  /// The pool that memory was allocated from; null for other memory.
  CUmemoryPool pool_of(Address begin) const;
  /// What the driver says of the memory around an address: as large as it was asked for.
  AddressRange range_around(Address inside) const;
  /// What a pool has, and what of it is not freed.
  struct PoolBytes {
    std::uint64_t reserved = 0;
    std::uint64_t used = 0;
  };
  PoolBytes bytes_of(CUmemoryPool pool) const;

 private:
  struct Plain {
    ContextHandle context{};
    std::uint64_t size_bytes = 0;  ///< As asked for.
  };
  struct Ordered {
    std::uint64_t size_bytes = 0;
    std::uint64_t asked_bytes = 0;
    CUmemoryPool pool = nullptr;
    bool freed = false;  ///< Once the work before has ended.
  };
  struct Freed {
    Address begin{};
    EventHandle event{};
  };
  static void unmap_ordered(Address begin, std::uint64_t size_bytes);

  mutable Mutex mutex_;
  std::map<Address, Plain> plain_ VMART_GUARDED_BY(mutex_);
  std::map<Address, Ordered> ordered_ VMART_GUARDED_BY(mutex_);
  std::vector<Freed> freed_ VMART_GUARDED_BY(mutex_);
};

/// Where properties or an access description place memory.
Place location_of(const CUmemLocation& location);

}  // namespace vma
