#pragma once

#include <vma/device.hpp>
#include <vma/export.hpp>
#include <vma/place.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace vma {
struct PoolHandle;  // Internal.
}

namespace vma::inline v1 {

class Runtime;

/// When a pool may give a stream memory that was freed on another one. The stream on which a block
/// was freed reuses it at once, whatever is set here.
struct ReusePolicies {
  /// Memory of streams that the work of this stream comes after, as `Pool::order` has told.
  bool event_dependencies = true;
  /// Memory whose free is complete, as an event tells. Without this policy, it must have become
  /// complete in a call that waits: `synchronize` of a runtime or a pool, or `vma::free`.
  bool opportunistic = true;
  /// If there is no other memory, the stream is made to wait for the free.
  bool internal_dependencies = true;
};

struct PoolOptions {
  /// Bytes that the pool keeps when its memory is free. What is more goes back to the runtime in
  /// calls that wait (`synchronize` of a runtime or a pool, `vma::free`) and when the pool trims.
  /// Free segments that are smaller than a block that is asked for also make room for it.
  std::size_t release_threshold = 0;
  /// The pool allocates no more than this; 0: no limit.
  std::size_t max_bytes = 0;
  ReusePolicies reuse;
  /// Size of one chunk, the unit that moves, as `AllocOptions::chunk_bytes`.
  std::size_t chunk_bytes = 0;
  /// Name of the pool's memory in logs, `where` listings, errors, and for `park`.
  std::string tag = "pool";
  /// The program never destroys a stream on which it freed a block of this pool, before that block
  /// is used again or the pool was synchronized. Then the pool can ask at any time whether the free
  /// is complete; otherwise it asks only in calls that name the stream, which therefore exists.
  /// Streams of `make_stream` need no such promise; those of threads (CU_STREAM_PER_THREAD) are not
  /// meant.
  bool streams_last = false;
  /// Other processes can import its blocks (`export_pool`), as `AllocOptions::exportable` says it.
  bool exportable = false;
};

/// What a pool holds. `high` marks are the largest values since they were last reset.
struct PoolStats {
  std::size_t reserved_bytes = 0;  ///< Memory of the runtime, in whole chunks.
  std::size_t reserved_high_bytes = 0;
  std::size_t used_bytes = 0;  ///< Blocks that are allocated, with what rounding added.
  std::size_t used_high_bytes = 0;
  std::size_t pending_bytes = 0;  ///< Freed on a stream, and not known to be complete.
};

/// Memory for many blocks of any size, allocated and freed in the order of streams. The blocks lie
/// in allocations of the runtime ("segments"), which move as all others do: a block's address never
/// changes. See docs/guide/pools.md.
///
/// A handle: copies name the same pool, which lives until `destroy`, or until the runtime ends. All
/// members are thread-safe. Calls after the end of the runtime throw Error{driver_gone}.
class VMART_EXPORT Pool {
 public:
  /// Names no pool: every call except assignment and comparison throws Error{invalid_argument}.
  Pool() = default;
  explicit Pool(std::shared_ptr<PoolHandle> handle) noexcept : handle_(std::move(handle)) {}

  /// Allocates at least `bytes` (> 0), for work that `stream` does after this call, and for other
  /// work that comes after that. `alignment` is a power of two, at most 2 MiB. While the stream
  /// captures, the address belongs to the graph. Throws: Error{out_of_memory, invalid_argument}.
  /// Blocks: only if the pool must grow; takes a fraction of a microsecond otherwise.
  void* allocate(std::size_t bytes, Stream stream, std::size_t alignment = 256) const;
  /// Frees a block after the work that is now enqueued on `stream`. Work that uses it must come
  /// before that. Null does nothing. Other memory of the runtime, and blocks of other pools, are
  /// freed as by `free_async`. Throws: Error{unknown_pointer} for what is not allocated;
  /// {invalid_argument} while the stream captures, unless the block was allocated in this capture.
  /// Does not block.
  void deallocate(void* pointer, Stream stream) const;
  /// Allocates as `allocate`, for work on any stream that is enqueued after this call: not memory
  /// whose free is pending. Throws and blocks: as `allocate`.
  void* allocate_now(std::size_t bytes, std::size_t alignment = 256) const;
  /// Frees a block that no work uses any more, as `vma::free` does. Null does nothing. Throws:
  /// Error{unknown_pointer} for what is no allocated block of a pool. Does not block.
  void deallocate_now(void* pointer) const;
  /// The work of `after` from now on comes after what is now enqueued on `before`: the program has
  /// made it wait for an event, for example. For the policy `event_dependencies`.
  void order(Stream after, Stream before) const;

  /// Gives empty segments back until the pool has no more than `keep_bytes`. Returns the number of
  /// bytes. Memory whose free is not known to be complete stays. Does not wait for work. Blocks:
  /// for a move of what it gives back, which gives up.
  std::size_t trim(std::size_t keep_bytes) const;
  /// Waits like `vma::free` for all work submitted earlier: all frees until now are complete then,
  /// except on streams of contexts that it does not see. Gives back what exceeds the release
  /// threshold.
  void synchronize() const;

  PoolStats stats() const;
  /// The high marks fall to the current values.
  void reset_high_marks() const;
  /// Where new memory of the pool is allocated.
  Place place() const;
  PoolOptions options() const;
  void set_release_threshold(std::size_t bytes) const;
  void set_reuse(const ReusePolicies& reuse) const;

  /// No more blocks can be allocated. Does not wait for blocks in use: they stay valid, and
  /// are freed as before; the memory goes back when the last one is. An `allocate` in another
  /// thread succeeds or is refused. If the pool is the current one of its place, the default pool
  /// becomes that. Throws: Error{invalid_argument} for a default pool, and for a destroyed one.
  /// Blocks: as `synchronize`, if blocks were freed on streams that may be gone.
  void destroy();

  explicit operator bool() const noexcept { return handle_ != nullptr; }
  friend VMART_EXPORT bool operator==(const Pool& a, const Pool& b) noexcept;

 private:
  friend class Runtime;
  std::shared_ptr<PoolHandle> handle_;
};

}  // namespace vma::inline v1
