#include "pools/block_pool.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/units.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

namespace vma {
namespace {

const char being_freed = 0;  // Holder of a block between its holders.

constexpr const char* allocate_call = "vma::Pool::allocate";
constexpr const char* deallocate_call = "vma::Pool::deallocate";
constexpr std::uint64_t alignment_max = 2 * MiB;

}  // namespace

void BlockPool::refuse() {
  throw Error(ErrorKind::invalid_argument, allocate_call, "the pool was destroyed");
}

/// A call that may grow the pool, or take a block for a graph. A destroyed pool ends after it.
class BlockPool::Use {
 public:
  /// Throws: Error{invalid_argument} for a destroyed pool.
  explicit Use(BlockPool& pool) : pool_(pool) {
    if (pool.uses_.enter()) return;
    pool.end_use(PoolUses::call);
    refuse();
  }
  ~Use() { pool_.end_use(PoolUses::call); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  BlockPool& pool_;
};

BlockPool::BlockPool(Driver& driver, Memory& memory, SegmentTable& table, LastUses& last_uses,
                     StreamBook::Lives lives, Place at, const PoolOptions& options)
    : driver_(driver),
      last_uses_(last_uses),
      at_(at),
      segments_(memory, table, *this),
      free_(driver, memory.contexts(), std::move(lives)),
      graphs_(driver),
      options_(options) {}

void BlockPool::close() noexcept {
  const MutexLock lock(mutex_);
  free_.streams().for_each([](StreamFrees& frees)
                               VMART_REQUIRES(frees.mutex) { frees.complete(UINT64_MAX); });
  graphs_.close();
}

// --- Allocate and free

BlockRequest BlockPool::request(std::uint64_t bytes, std::uint64_t alignment,
                                StreamHandle stream) const {
  constexpr std::uint64_t bytes_max = std::uint64_t{1} << 45;
  if (bytes == 0 || bytes > bytes_max) {
    throw Error(ErrorKind::invalid_argument, allocate_call,
                fmt::format("{} bytes; ask for 1 to {}", bytes, bytes_max));
  }
  if (!std::has_single_bit(alignment) || alignment > alignment_max) {
    throw Error(ErrorKind::invalid_argument, allocate_call,
                fmt::format("an alignment of {} bytes; it must be a power of two of at most {}",
                            alignment, alignment_max));
  }
  BlockRequest request;
  request.size_bytes = SizeClasses::rounded(bytes);
  request.alignment = std::max(alignment, SizeClasses::step_bytes);
  request.stream = stream;
  request.small = FreeSpace::is_small(request.size_bytes, request.alignment);
  return request;
}

Address BlockPool::allocate(std::uint64_t bytes, StreamHandle stream, std::uint64_t alignment) {
  BlockRequest asked = request(bytes, alignment, stream);
  const StreamNow now = free_.streams().now(stream);
  if (now.capture != 0) return allocate_captured(asked, now.capture);
  asked.id = now.id;
  if (Block* const block = take_own(asked)) return block->begin;
  return find(asked).begin;
}

Block* BlockPool::take_own(const BlockRequest& request) {
  const auto take = [&](StreamFrees& own) VMART_REQUIRES(own.mutex) -> Block* {
    Block* const block = own.bins().close_fit(request.size_bytes, request.alignment);
    if (block == nullptr || !uses_.add(own.uses, block->size_bytes)) {
      uses_.fold(own.uses);  // The search counts in the word.
      return nullptr;
    }
    own.remove(*block);
    block->free_waits = false;
    block->holder.store(Block::live, std::memory_order_release);
    return block;
  };
  return free_.streams().with(request.stream, request.id, take);
}

void BlockPool::hand_out(Block& block) noexcept {
  block.free_waits = false;
  block.holder.store(Block::live, std::memory_order_release);
  uses_.add(block.size_bytes);
}

void BlockPool::fold_uses() {
  free_.streams().for_each([&](StreamFrees& frees)
                               VMART_REQUIRES(frees.mutex) { uses_.fold(frees.uses); });
  uses_.settle();
}

/// The pool may be gone on return, unless the caller keeps it.
void BlockPool::end_use(std::uint64_t bytes) noexcept {
  LastUses& last_uses = last_uses_;
  if (uses_.remove(bytes)) last_uses.look(this);
}

/// From here on the block is the caller's. Throws: Error{unknown_pointer} if it is not live.
void BlockPool::claim(Block& block, const char* call) {
  const void* live = Block::live;
  if (!block.holder.compare_exchange_strong(live, &being_freed)) {
    throw Error(ErrorKind::unknown_pointer, call,
                fmt::format("the block at {:#x} was already freed", to_integer(block.begin)));
  }
}

void BlockPool::deallocate(Block& block, StreamHandle stream) {
  const StreamNow now = free_.streams().now(stream);
  if (now.capture != 0) return deallocate_captured(block, stream, now.capture);
  if (block.graph.load(std::memory_order_relaxed) != nullptr &&
      deallocate_late(block, stream, now.id)) {
    return;
  }
  std::uint64_t bytes = 0;
  free_.streams().with(stream, now.id, [&](StreamFrees& own) VMART_REQUIRES(own.mutex) {
    claim(block, deallocate_call);
    own.put(block);
    if (uses_.retired() || own.should_mark()) own.mark();
    if (!uses_.remove(own.uses, block.size_bytes)) bytes = block.size_bytes;
  });
  if (bytes > 0) end_use(bytes);  // Without, the pool may be gone already.
}

void BlockPool::free_now(Block& block) {
  std::uint64_t bytes = 0;
  {
    const MutexLock lock(mutex_);
    if (block.graph != nullptr) {
      block.freed_late = true;
      return;
    }
    claim(block, "vma::free");
    bytes = block.size_bytes;
    free_.space().put(block);
  }
  end_use(bytes);
}

Address BlockPool::allocate_now(std::uint64_t bytes, std::uint64_t alignment, bool free_waits) {
  const BlockRequest asked = request(bytes, alignment, {});
  const Use use(*this);
  Block& block = find_complete(asked);
  block.free_waits = free_waits;
  return block.begin;
}

// --- In captures

Address BlockPool::allocate_captured(const BlockRequest& request, std::uint64_t capture) {
  const Use use(*this);
  {
    const MutexLock lock(mutex_);
    GraphMemory& graph = graphs_.of(request.stream, capture);
    if (Block* const block = graph.take(CapturedStream::of(driver_, request.stream),
                                        request.size_bytes, request.alignment)) {
      block->holder.store(Block::live, std::memory_order_release);
      return block->begin;
    }
  }
  Block& block = find_complete(request);
  const MutexLock lock(mutex_);
  uses_.keep(block.size_bytes);
  try {
    graphs_.of(request.stream, capture).keep(block);
  } catch (...) {
    put_complete(block);
    throw;
  }
  return block.begin;
}

void BlockPool::deallocate_captured(Block& block, StreamHandle stream, std::uint64_t capture) {
  const MutexLock lock(mutex_);
  GraphMemory* const graph = block.graph;
  if (graph == nullptr || graph->capture() != capture) {
    throw Error(ErrorKind::invalid_argument, deallocate_call,
                fmt::format("{:#x} was not allocated in the capture of this stream; free it after "
                            "the capture",
                            to_integer(block.begin)));
  }
  if (block.holder != Block::live) {
    throw Error(ErrorKind::unknown_pointer, deallocate_call,
                fmt::format("the block at {:#x} was already freed", to_integer(block.begin)));
  }
  graph->put(CapturedStream::of(driver_, stream), block);
}

/// False if the block is no graph's any more.
bool BlockPool::deallocate_late(Block& block, StreamHandle stream, std::uint64_t id) {
  const MutexLock lock(mutex_);
  GraphMemory* const graph = block.graph;
  if (graph == nullptr) return false;
  if (block.holder != Block::live) {
    throw Error(ErrorKind::invalid_argument, deallocate_call,
                fmt::format("{:#x} was freed in its capture", to_integer(block.begin)));
  }
  std::uint64_t epoch = 0;
  free_.streams().with(stream, id, [&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    epoch = frees.note();
    frees.mark();
  });
  graph->free_late(block, id, epoch);
  return true;
}

/// Takes back a live block of a graph that no work uses.
void BlockPool::put_complete(Block& block) noexcept {
  uses_.forsake(block.size_bytes, true);
  block.holder = &being_freed;
  free_.space().put(block);
}

void BlockPool::collect_graphs() {
  if (graphs_.empty()) return;
  graphs_.collect(free_.streams(), [this](Block& block) VMART_REQUIRES(mutex_) {
    if (block.freed_late) return put_complete(block);
    uses_.forsake(block.size_bytes, false);
  });
}

// --- The search for memory

Block& BlockPool::find(const BlockRequest& request) {
  // The pool does not end before a search, since it still has the memory that is found.
  if (uses_.retired()) refuse();
  if (Block* const block = search(request)) return *block;
  const Use use(*this);
  while (true) {
    try {
      grow(request);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      const MutexLock lock(mutex_);
      if (!options_.reuse.internal_dependencies) throw;
      Block* const block = free_.search_waiting(request);
      if (block == nullptr) throw;
      hand_out(*block);
      return *block;
    }
    if (Block* const block = search(request)) return *block;
  }
}

Block* BlockPool::search(const BlockRequest& request) {
  const MutexLock lock(mutex_);
  collect_graphs();
  Block* const block = free_.search(request, options_.reuse);
  if (block != nullptr) hand_out(*block);
  return block;
}

/// For a graph, which may run at any time: only what no stream uses any more. Requires: a Use.
Block& BlockPool::find_complete(const BlockRequest& request) {
  while (true) {
    {
      const MutexLock lock(mutex_);
      collect_graphs();
      Block* block = free_.take_complete(request);
      if (block == nullptr) {
        free_.collect(options_.reuse.opportunistic ? FreeBlocks::Ask::all
                                                   : FreeBlocks::Ask::nothing);
        block = free_.take_complete(request);
      }
      if (block != nullptr) {
        hand_out(*block);
        return *block;
      }
    }
    grow(request);
  }
}

void BlockPool::grow(const BlockRequest& request) {
  PoolOptions options;
  Block* range = nullptr;
  {
    const MutexLock lock(mutex_);
    options = options_;
    range = &free_.space().reserve();  // So that nothing can fail once there is a segment.
  }
  std::list<Segment> made;
  try {
    made = make_segment(request.range_bytes(), options);
  } catch (...) {
    const MutexLock lock(mutex_);
    free_.space().unreserve(*range);
    throw;
  }
  const MutexLock lock(mutex_);
  free_.space().add(made.front(), *range);
  segments_.insert(made);
}

std::list<Segment> BlockPool::make_segment(std::uint64_t need_bytes, const PoolOptions& options) {
  const Place at = at_;
  // Segments that nothing uses and that are too small make room for one that is large enough.
  const std::uint64_t has = segments_.reserved_bytes();
  give_back(has - std::min(has, need_bytes), false,
            [&](const Segment& each) { return each.size_bytes < need_bytes; });
  try {
    return segments_.make(need_bytes, at, options);
  } catch (const Error& error) {
    // What the pool has in other places, or in pieces, may make the room.
    if (error.kind() != ErrorKind::out_of_memory || give_back(0, true) == 0) throw;
    return segments_.make(need_bytes, at, options);
  }
}

void BlockPool::complete(const Past& past) noexcept {
  std::uint64_t threshold = 0;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, context, epoch] : past) {
      free_.streams().with_known(id,
                                 [&, last = epoch](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
                                   frees.complete(last);
                                   free_.collect_from(frees);
                                 });
    }
    collect_graphs();
    threshold = retired() ? 0 : options_.release_threshold;
  }
  try {
    give_back(threshold, false);
  } catch (const std::exception& error) {
    log(LogLevel::debug, "a pool keeps its memory for now: {}", error.what());
  }
}

void BlockPool::order(StreamHandle after, StreamHandle before) {
  constexpr const char* call = "vma::Pool::order";
  const StreamNow later = free_.streams().now(after), earlier = free_.streams().now(before);
  if (later.capture != 0 || earlier.capture != 0) {
    throw Error(ErrorKind::invalid_argument, call, "a stream captures");
  }
  free_.streams().order({after, later.id}, {before, earlier.id});
}

// --- Giving memory back

std::vector<Segment*> BlockPool::withdraw_idle(std::uint64_t keep_bytes, const Chosen& chosen) {
  std::vector<Segment*> idle;
  std::uint64_t left_bytes = 0;
  for (const Segment& segment : segments_.all()) left_bytes += segment.size_bytes;
  for (Segment& segment : segments_.all()) {
    if (left_bytes <= keep_bytes) break;
    if (left_bytes - keep_bytes < segment.size_bytes || !free_.space().is_idle(segment)) continue;
    if (chosen && !chosen(segment)) continue;
    idle.push_back(&segment);
    left_bytes -= segment.size_bytes;
  }
  for (Segment* segment : idle) free_.space().withdraw(*segment);
  return idle;
}

std::uint64_t BlockPool::give_back(std::uint64_t keep_bytes, bool ask, const Chosen& chosen,
                                   Segments::IfItMoves if_it_moves) {
  std::vector<Segment*> idle;
  {
    const MutexLock lock(mutex_);
    collect_graphs();
    const bool events = ask && (options_.reuse.opportunistic || retired());
    free_.collect(events ? FreeBlocks::Ask::all : FreeBlocks::Ask::nothing);
    idle = withdraw_idle(keep_bytes, chosen);
  }
  std::uint64_t bytes = 0;
  for (Segment* segment : idle) {
    const bool given = segments_.give_back(*segment, if_it_moves);
    if (given) bytes += segment->size_bytes;
    const MutexLock lock(mutex_);
    if (given) {
      free_.space().remove(*segment);
      segments_.erase(*segment);
    } else {
      free_.space().restore(*segment);
    }
  }
  return bytes;
}

// --- The end of a destroyed pool

bool BlockPool::has_unknown_frees() {
  const MutexLock lock(mutex_);
  free_.collect(FreeBlocks::Ask::all);
  return free_.streams().known().unmarked;
}

BlockPool::Rest BlockPool::rest() {
  const MutexLock lock(mutex_);
  return rest_now();
}

BlockPool::Rest BlockPool::ask() {
  const MutexLock lock(mutex_);
  collect_graphs();
  free_.collect(FreeBlocks::Ask::events);
  return rest_now();
}

BlockPool::Rest BlockPool::rest_now() {
  if (uses_.any()) return Rest::held;
  if (segments_.all().empty() && graphs_.empty()) return Rest::none;
  const StreamBook::Known known = free_.streams().known();
  if (known.marked || graphs_.any_lasts()) return Rest::pending;
  return known.unmarked ? Rest::held : Rest::idle;
}

// --- Properties

PoolStats BlockPool::stats() {
  PoolStats stats;
  free_.streams().for_each([&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    stats.pending_bytes += frees.bins().bytes();
  });
  fold_uses();
  stats.reserved_bytes = segments_.reserved_bytes();
  stats.reserved_high_bytes = segments_.reserved_high_bytes();
  stats.used_bytes = uses_.bytes();
  stats.used_high_bytes = uses_.high_bytes();
  return stats;
}

void BlockPool::reset_high_marks() {
  fold_uses();
  segments_.reset_high();
  uses_.reset_high();
}

PoolOptions BlockPool::options() const {
  const MutexLock lock(mutex_);
  return options_;
}

void BlockPool::set_release_threshold(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  options_.release_threshold = bytes;
}

void BlockPool::set_reuse(const ReusePolicies& reuse) {
  const MutexLock lock(mutex_);
  options_.reuse = reuse;
}

std::vector<BlockPlace> BlockPool::segments() const {
  std::vector<BlockPlace> all;
  const MutexLock lock(mutex_);
  for (const Segment& each : segments_.all()) all.push_back({each.begin, 0, each.size_bytes});
  return all;
}

void BlockPool::check_invariants() {
  const MutexLock lock(mutex_);
  std::uint64_t free_bytes = free_.space().ready_bytes(), reserved_bytes = 0;
  for (const Segment& segment : segments_.all()) {
    free_.space().check_invariants(segment);
    reserved_bytes += segment.size_bytes;
  }
  VMART_CHECK(reserved_bytes == segments_.reserved_bytes(), "the segments are what is counted");
  free_.streams().for_each([&](StreamFrees& frees)
                               VMART_REQUIRES(frees.mutex) { free_bytes += frees.bins().bytes(); });
  fold_uses();
  VMART_CHECK(free_bytes + uses_.bytes() == reserved_bytes, "a byte is free, pending or used");
}

}  // namespace vma
