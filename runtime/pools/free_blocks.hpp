#pragma once

#include "driver/driver.hpp"
#include "pools/free_space.hpp"
#include "pools/stream_book.hpp"

#include <vma/pool.hpp>

#include <cstdint>
#include <functional>

namespace vma {

/// What a call asks a pool for.
struct BlockRequest {
  std::uint64_t size_bytes = 0;  ///< Rounded.
  std::uint64_t alignment = 0;
  StreamHandle stream{};
  std::uint64_t id = 0;  ///< Of the stream.
  bool small = false;    ///< From a slab.

  /// How large a range it needs at most.
  std::uint64_t range_bytes() const noexcept {
    return small ? FreeSpace::slab_bytes(size_bytes)
                 : size_bytes + alignment - SizeClasses::step_bytes;
  }
};

/// The free blocks of a pool, complete ones and those of each stream, and which of them a stream
/// may have. The lock of the pool guards all calls but those of `streams`.
class FreeBlocks {
 public:
  FreeBlocks(Driver& driver, ContextsInUse& contexts, StreamBook::Lives lives)
      : driver_(driver), streams_(driver, contexts, std::move(lives)) {}

  StreamBook& streams() noexcept { return streams_; }
  FreeSpace& space() noexcept { return space_; }

  /// A free block that the stream may use, or null. Throws: std::bad_alloc; then nothing has
  /// changed.
  Block* search(const BlockRequest& request, const ReusePolicies& reuse);
  /// A complete one only; a range of up to `bytes_max`.
  Block* take_complete(const BlockRequest& request, std::uint64_t bytes_max = UINT64_MAX);
  /// One for which the stream waits from here on.
  Block* search_waiting(const BlockRequest& request);
  /// What the driver is asked for.
  enum class Ask {
    nothing,
    events,  ///< Those that stand for frees by now.
    all,     ///< Records events for frees that have none.
  };
  /// Frees that are complete leave their streams.
  void collect(Ask ask);
  /// The same for one stream, whose lock the caller holds.
  void collect_from(StreamFrees& frees) VMART_REQUIRES(frees.mutex);

 private:
  /// Which ranges of a stream are joined with their neighbours.
  enum class Join { new_ones, all };
  Block* search_own(const BlockRequest& request, Join which, std::uint64_t bytes_max);
  Block* search_ordered(const BlockRequest& request);
  Block* cut_from(StreamFrees& frees, const BlockRequest& request, std::uint64_t bytes_max,
                  std::uint64_t epoch_max) VMART_REQUIRES(frees.mutex);
  void join(StreamFrees& frees, const BlockRequest& request, Join which)
      VMART_REQUIRES(frees.mutex);
  Block& join_own_neighbours(StreamFrees& frees, Block& range, Join which)
      VMART_REQUIRES(frees.mutex);

  Driver& driver_;
  StreamBook streams_;
  FreeSpace space_;
};

}  // namespace vma
