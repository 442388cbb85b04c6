#pragma once

/// For programs on CCCL 3.1 or newer (`cuda::mr`), and what is built on it, such as RMM 26.06:
/// `MemoryResource` has memory that moves, `HostMemoryResource` memory that the CPU uses too.
/// Nothing else in the library needs CCCL. See docs/guide/integrations.md.

#include <vma/error.hpp>
#include <vma/place.hpp>
#include <vma/pool.hpp>
#include <vma/runtime.hpp>

#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include <bit>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#if !defined(CCCL_VERSION) || CCCL_VERSION < 3001000
#error "vma/memory_resource.hpp needs CCCL 3.1: cuda::mr::resource is something else in older ones"
#endif

namespace vma::inline v1 {

/// What a resource throws when memory runs out: callers of `cuda::mr` expect a `std::bad_alloc`,
/// which `Error` is not.
class VMART_EXPORT OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(Error error) noexcept : error_(std::move(error)) {}

  const char* what() const noexcept override { return error_.what(); }
  const Error& error() const noexcept { return error_; }

 private:
  Error error_;
};

/// How calls of the runtime appear to callers of a resource.
class ResourceCall {
 public:
  /// Null for 0 bytes. Throws: OutOfMemory for Error{out_of_memory}, and for more bytes than there
  /// are addresses; other errors as they are.
  template <typename Body>
  static void* allocate(const char* call, std::size_t bytes, Body&& body) try {
    if (bytes == 0) return nullptr;
    if (bytes > bytes_max) throw Error(ErrorKind::out_of_memory, call, "more than 32 TiB");
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::out_of_memory) throw OutOfMemory(error);
    throw;
  }
  /// Memory that ended with its runtime was freed then. Throws: other errors.
  template <typename Body>
  static void deallocate(Body&& body) try {
    std::forward<Body>(body)();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::driver_gone) throw;
  }

 private:
  static constexpr std::size_t bytes_max = std::size_t{1} << 45;  // That of a pool.
};

/// The blocks of a pool, as a `cuda::mr::resource` with the property `device_accessible`. Copies
/// are equal and use the same pool, which they do not keep from being destroyed. All members are
/// thread-safe.
///
/// 0 bytes are a null pointer. An alignment is a power of two of at most 2 MiB. After the runtime
/// has ended, deallocation does nothing. Otherwise it throws as the pool does: in a destructor,
/// that ends the program with the message.
class MemoryResource {
 public:
  static constexpr std::size_t default_alignment = 256;
  static constexpr std::size_t alignment_max = std::size_t{2} << 20;

  explicit MemoryResource(Pool pool) noexcept : pool_(std::move(pool)) {}

  /// See `Pool::allocate`. Throws: OutOfMemory; Error{invalid_argument}.
  [[nodiscard]] void* allocate(cuda::stream_ref stream, std::size_t bytes,
                               std::size_t alignment = default_alignment) const {
    return ResourceCall::allocate("vma::MemoryResource::allocate", bytes,
                                  [&] { return pool_.allocate(bytes, stream.get(), alignment); });
  }
  /// See `Pool::deallocate`; for memory of either `allocate`.
  void deallocate(cuda::stream_ref stream, void* pointer, std::size_t /*bytes*/,
                  std::size_t /*alignment*/ = default_alignment) const {
    ResourceCall::deallocate([&] { pool_.deallocate(pointer, stream.get()); });
  }

  /// For work on any stream. Throws: as `allocate`. Blocks: if memory runs out, until all frees in
  /// the order of streams are complete.
  [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                    std::size_t alignment = default_alignment) const {
    return ResourceCall::allocate("vma::MemoryResource::allocate_sync", bytes,
                                  [&] { return allocate_now(bytes, alignment); });
  }
  /// Frees memory that no work uses any more. Does not wait.
  void deallocate_sync(void* pointer, std::size_t /*bytes*/,
                       std::size_t /*alignment*/ = default_alignment) const {
    ResourceCall::deallocate([&] { pool_.deallocate_now(pointer); });
  }

  /// For `vma::migrate(resource.pool(), place)`.
  const Pool& pool() const noexcept { return pool_; }

  friend bool operator==(const MemoryResource&, const MemoryResource&) noexcept = default;
  friend constexpr void get_property(const MemoryResource&, cuda::mr::device_accessible) noexcept {}

 private:
  void* allocate_now(std::size_t bytes, std::size_t alignment) const {
    try {
      return pool_.allocate_now(bytes, alignment);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
    }
    pool_.synchronize();
    return pool_.allocate_now(bytes, alignment);
  }

  Pool pool_;
};

/// Memory at a host node, as a `cuda::mr::synchronous_resource` that is `host_accessible` and
/// `device_accessible`: CPU and kernels use it through the same pointer. It does not move. Each
/// block is an allocation of the runtime, in chunks of 2 MiB or more: meant for large ones. Copies
/// are equal and share the blocks. All members are thread-safe.
///
/// There are no stream-ordered calls: once memory is freed, the CPU cannot use it any more, also in
/// a host function that is still enqueued.
class HostMemoryResource {
 public:
  static constexpr std::size_t default_alignment = MemoryResource::default_alignment;

  /// Requires: the runtime outlives all copies.
  HostMemoryResource(Runtime& runtime, Place node)
      : blocks_(std::make_shared<Blocks>(runtime, node)) {}

  /// For work on any stream. Throws: OutOfMemory; Error{invalid_argument}, also for an unknown
  /// place; {unsupported} for one that the CPU does not reach. Blocks: as `vma::alloc`.
  [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                    std::size_t alignment = default_alignment) const {
    return ResourceCall::allocate(Blocks::call, bytes,
                                  [&] { return blocks_->allocate(bytes, alignment); });
  }
  /// Blocks: as `vma::free`, for all work submitted earlier.
  void deallocate_sync(void* pointer, std::size_t /*bytes*/,
                       std::size_t /*alignment*/ = default_alignment) const {
    ResourceCall::deallocate([&] { blocks_->deallocate(pointer); });
  }

  friend bool operator==(const HostMemoryResource&, const HostMemoryResource&) noexcept = default;
  friend constexpr void get_property(const HostMemoryResource&,
                                     cuda::mr::device_accessible) noexcept {}
  friend constexpr void get_property(const HostMemoryResource&,
                                     cuda::mr::host_accessible) noexcept {}

 private:
  /// What is allocated, each with the view of the CPU.
  class Blocks {
   public:
    static constexpr const char* call = "vma::HostMemoryResource::allocate_sync";

    Blocks(Runtime& runtime, Place node) : runtime_(runtime), node_(node) {}

    void* allocate(std::size_t bytes, std::size_t alignment) {
      // That of all allocations of the runtime is at least as large.
      if (!std::has_single_bit(alignment) || alignment > MemoryResource::alignment_max) {
        throw Error(ErrorKind::invalid_argument, call,
                    "the alignment must be a power of two of at most 2 MiB");
      }
      AllocOptions options;
      options.tag = "host_memory_resource";
      options.movable = false;  // Nor before it has a view.
      void* const pointer = runtime_.alloc(bytes, node_, options);
      try {
        HostView view = runtime_.host_view(pointer, bytes);
        const std::lock_guard lock(mutex_);
        views_.emplace(pointer, std::move(view));
      } catch (...) {
        runtime_.free(pointer);
        throw;
      }
      return pointer;
    }

    void deallocate(void* pointer) {
      {
        std::unique_lock lock(mutex_);
        const auto ended = views_.extract(pointer);
        lock.unlock();  // A view that ends calls the driver.
      }
      runtime_.free(pointer);
    }

   private:
    Runtime& runtime_;
    const Place node_;
    std::mutex mutex_;
    std::unordered_map<void*, HostView> views_;  // Guarded by `mutex_`.
  };

  std::shared_ptr<Blocks> blocks_;
};

static_assert(cuda::mr::resource_with<MemoryResource, cuda::mr::device_accessible>);
static_assert(cuda::mr::synchronous_resource_with<HostMemoryResource, cuda::mr::host_accessible,
                                                  cuda::mr::device_accessible>);

}  // namespace vma::inline v1
