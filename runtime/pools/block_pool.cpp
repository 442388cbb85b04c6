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

BlockPool::BlockPool(Driver& driver, Memory& memory, SegmentTable& table,
                     std::function<bool(StreamHandle)> lasts, Location at,
                     const PoolOptions& options)
    : driver_(driver),
      memory_(memory),
      at_(at),
      segments_(memory, table, *this),
      free_(driver, memory.contexts(), std::move(lasts)),
      options_(options) {}

void BlockPool::close() noexcept {
  const MutexLock lock(mutex_);
  free_.streams().for_each([](StreamFrees& frees)
                               VMART_REQUIRES(frees.mutex) { frees.complete(UINT64_MAX); });
  for (const auto& graph : graphs_) graph->forget_events();
  graphs_.clear();
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
  if (retired_.load(std::memory_order_relaxed)) {
    throw Error(ErrorKind::invalid_argument, allocate_call, "the pool was destroyed");
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
  const StreamNow now = driver_.stream_now(stream);
  if (now.capture != 0) return allocate_captured(asked, now.capture);
  asked.id = now.id;
  if (Block* const block = take_own(asked)) return block->begin;
  return find(asked).begin;
}

Block* BlockPool::take_own(const BlockRequest& request) {
  const auto take = [&](StreamFrees& own) VMART_REQUIRES(own.mutex) -> Block* {
    Block* const block = own.bins().close_fit(request.size_bytes, request.alignment);
    if (block == nullptr) return nullptr;
    own.remove(*block);
    return &handed_out(*block);
  };
  return free_.streams().with(request.stream, request.id, take);
}

Block& BlockPool::handed_out(Block& block) noexcept {
  const std::uint64_t used = used_bytes_.fetch_add(block.size_bytes) + block.size_bytes;
  if (used > used_high_bytes_.load(std::memory_order_relaxed)) raise(used_high_bytes_, used);
  block.free_waits = false;
  block.holder.store(Block::live, std::memory_order_release);
  return block;
}

/// From here on the block is the caller's. Throws: Error{unknown_pointer} if it is not live.
void BlockPool::claim(Block& block, const char* call) {
  const void* live = Block::live;
  if (!block.holder.compare_exchange_strong(live, &being_freed)) {
    throw Error(ErrorKind::unknown_pointer, call,
                fmt::format("the block at {:#x} was already freed", to_integer(block.begin)));
  }
  used_bytes_.fetch_sub(block.size_bytes);
}

/// Takes back a live block that no work uses.
void BlockPool::put_complete(Block& block) noexcept {
  block.holder = &being_freed;
  used_bytes_.fetch_sub(block.size_bytes);
  free_.space().put(block);
}

void BlockPool::deallocate(Block& block, StreamHandle stream) {
  const StreamNow now = driver_.stream_now(stream);
  if (now.capture != 0) return deallocate_captured(block, stream, now.capture);
  if (block.graph.load(std::memory_order_relaxed) != nullptr &&
      deallocate_late(block, stream, now.id)) {
    return;
  }
  free_.streams().with(stream, now.id, [&](StreamFrees& own) VMART_REQUIRES(own.mutex) {
    claim(block, deallocate_call);
    own.put(block);
    if (retired_ || own.should_mark()) own.mark();
  });
}

void BlockPool::free_now(Block& block) {
  const MutexLock lock(mutex_);
  if (block.graph != nullptr) {
    block.freed_late = true;
    return;
  }
  claim(block, "vma::free");
  free_.space().put(block);
}

Address BlockPool::allocate_plain(std::uint64_t bytes) {
  Block& block = find_complete(request(bytes, SizeClasses::step_bytes, {}));
  block.free_waits = true;
  return block.begin;
}

// --- In captures

Address BlockPool::allocate_captured(const BlockRequest& request, std::uint64_t capture) {
  {
    const MutexLock lock(mutex_);
    GraphMemory& graph = graph_of(request.stream, capture);
    if (Block* const block = graph.take(request.stream, request.size_bytes, request.alignment)) {
      block->holder.store(Block::live, std::memory_order_release);
      return block->begin;
    }
  }
  Block& block = find_complete(request);
  const MutexLock lock(mutex_);
  try {
    graph_of(request.stream, capture).keep(block);
  } catch (...) {
    put_complete(block);
    throw;
  }
  return block.begin;
}

GraphMemory& BlockPool::graph_of(StreamHandle stream, std::uint64_t capture) {
  for (const auto& graph : graphs_) {
    if (graph->capture() == capture) return *graph;
  }
  auto graph = std::make_unique<GraphMemory>(driver_, memory_.contexts(), capture);
  graphs_.reserve(graphs_.size() + 1);
  const std::shared_ptr<std::atomic<bool>> ended = graph->ended();
  driver_.at_graph_end({driver_.stream_context(stream), stream}, [ended] { *ended = true; });
  graphs_.push_back(std::move(graph));
  return *graphs_.back();
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
  graph->put(stream, block);
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
  graph->free_late(block, {driver_.stream_context(stream), stream}, id);
  return true;
}

void BlockPool::collect_graphs() {
  for (std::size_t i = 0; i < graphs_.size();) {
    if (!graphs_[i]->is_over()) {
      ++i;
      continue;
    }
    graphs_[i]->release([this](Block& block) VMART_REQUIRES(mutex_) { put_complete(block); });
    std::swap(graphs_[i], graphs_.back());
    graphs_.pop_back();
  }
}

// --- The search for memory

Block& BlockPool::find(const BlockRequest& request) {
  while (true) {
    {
      const MutexLock lock(mutex_);
      collect_graphs();
      if (Block* const block = free_.search(request, options_.reuse)) return handed_out(*block);
    }
    try {
      grow(request);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      const MutexLock lock(mutex_);
      if (!options_.reuse.internal_dependencies) throw;
      if (Block* const block = free_.search_waiting(request)) return handed_out(*block);
      throw;
    }
  }
}

/// For a graph, which may run at any time: only what no stream uses any more.
Block& BlockPool::find_complete(const BlockRequest& request) {
  while (true) {
    {
      const MutexLock lock(mutex_);
      collect_graphs();
      Block* block = free_.take_complete(request);
      if (block == nullptr) {
        free_.collect(options_.reuse.opportunistic);
        block = free_.take_complete(request);
      }
      if (block != nullptr) return handed_out(*block);
    }
    grow(request);
  }
}

void BlockPool::grow(const BlockRequest& request) {
  PoolOptions options;
  {
    const MutexLock lock(mutex_);
    options = options_;
  }
  const Location at = at_;
  std::unique_ptr<Segment> segment;
  try {
    segment = segments_.make(request.range_bytes(), at, options);
  } catch (const Error& error) {
    // What the pool has in other places, or in pieces, may make the room.
    if (error.kind() != ErrorKind::out_of_memory || give_back(0, true) == 0) throw;
    segment = segments_.make(request.range_bytes(), at, options);
  }
  const MutexLock lock(mutex_);
  Segment& made = *segment;
  try {
    free_.space().add(made);
    segments_.insert(segment);
  } catch (...) {
    if (segment) segments_.give_back(*segment);
    throw;
  }
}

BlockPool::Past BlockPool::past(std::uint64_t only_stream) {
  Past past;
  free_.streams().for_each([&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    if (only_stream != StreamFrees::nobody && frees.id() != only_stream) return;
    past.epochs.emplace_back(frees.id(), frees.close_epoch());
  });
  return past;
}

void BlockPool::complete(const Past& past) noexcept {
  std::uint64_t threshold = 0;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, epoch] : past.epochs) {
      free_.streams().with_known(id,
                                 [&, last = epoch](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
                                   frees.complete(last);
                                   free_.collect_from(frees);
                                 });
    }
    collect_graphs();
    threshold = options_.release_threshold;
  }
  try {
    give_back(threshold, false);
  } catch (const std::exception& error) {
    log(LogLevel::debug, "a pool keeps its memory for now: {}", error.what());
  }
}

void BlockPool::leaves(StreamHandle stream) noexcept {
  free_.streams().for_each([&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    if (frees.stream().handle != stream || frees.left()) return;
    frees.mark();
    frees.leaves();
  });
}

void BlockPool::has_left(StreamHandle stream, bool left) noexcept {
  free_.streams().for_each([&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    if (frees.stream().handle != stream || !frees.leaving()) return;
    if (left) {
      frees.leave();
    } else {
      frees.stays();
    }
  });
}

void BlockPool::order(StreamHandle after, StreamHandle before) {
  constexpr const char* call = "vma::Pool::order";
  const StreamNow later = driver_.stream_now(after), earlier = driver_.stream_now(before);
  if (later.capture != 0 || earlier.capture != 0) {
    throw Error(ErrorKind::invalid_argument, call, "a stream captures");
  }
  StreamBook& streams = free_.streams();
  const auto known =
      streams.with(before, earlier.id, [&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
        auto epochs = frees.after;
        epochs[earlier.id] = frees.close_epoch();
        return epochs;
      });
  streams.with(after, later.id, [&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    for (const auto& [id, epoch] : known) {
      if (id != later.id) frees.after[id] = std::max(frees.after[id], epoch);
    }
  });
}

// --- Giving memory back

std::uint64_t BlockPool::trim(std::uint64_t keep_bytes) {
  return give_back(keep_bytes, true);
}

std::vector<Segment*> BlockPool::take_idle(std::uint64_t keep_bytes) {
  std::vector<Segment*> idle;
  std::uint64_t left_bytes = 0;
  for (const auto& segment : segments_.all()) left_bytes += segment->size_bytes;
  for (const auto& segment : segments_.all()) {
    if (left_bytes <= keep_bytes) break;
    if (left_bytes - keep_bytes < segment->size_bytes || !free_.space().is_idle(*segment)) continue;
    idle.push_back(segment.get());
    left_bytes -= segment->size_bytes;
  }
  return idle;
}

std::uint64_t BlockPool::give_back(std::uint64_t keep_bytes, bool ask) {
  std::vector<std::unique_ptr<Segment>> taken;
  {
    const MutexLock lock(mutex_);
    collect_graphs();
    free_.collect(ask && options_.reuse.opportunistic);
    const std::vector<Segment*> idle = take_idle(keep_bytes);
    taken.reserve(idle.size());
    for (Segment* segment : idle) {
      free_.space().remove(*segment);
      taken.push_back(segments_.take_out(*segment));
    }
  }
  std::uint64_t bytes = 0;
  for (std::unique_ptr<Segment>& segment : taken) {
    if (segments_.give_back(*segment)) {
      bytes += segment->size_bytes;
      continue;
    }
    const MutexLock lock(mutex_);  // Neither needs memory: both have held it until now.
    free_.space().add(*segment);
    segments_.insert(segment);
  }
  return bytes;
}

bool BlockPool::is_gone() noexcept {
  try {
    if (!is_unused()) return false;
    give_back(0, true);
    const MutexLock lock(mutex_);
    return segments_.all().empty() && graphs_.empty();
  } catch (const std::exception& error) {
    log(LogLevel::debug, "a destroyed pool keeps its memory for now: {}", error.what());
    return false;
  }
}

bool BlockPool::has_unknown_frees() {
  bool unknown = false;
  free_.streams().for_each([&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    if (frees.lasts()) frees.mark();
    unknown |= frees.unmarked();
  });
  return unknown;
}

// --- Properties

PoolStats BlockPool::stats() {
  PoolStats stats;
  free_.streams().for_each([&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    stats.pending_bytes += frees.bins().bytes();
  });
  stats.reserved_bytes = segments_.reserved_bytes();
  stats.reserved_high_bytes = segments_.reserved_high_bytes();
  stats.used_bytes = used_bytes_;
  stats.used_high_bytes = used_high_bytes_;
  return stats;
}

void BlockPool::reset_high_marks() noexcept {
  segments_.reset_high();
  used_high_bytes_ = used_bytes_.load();
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

std::vector<Address> BlockPool::segments() const {
  std::vector<Address> begins;
  const MutexLock lock(mutex_);
  for (const auto& segment : segments_.all()) begins.push_back(segment->begin);
  return begins;
}

void BlockPool::check_invariants() {
  const MutexLock lock(mutex_);
  std::uint64_t free_bytes = free_.space().ready_bytes(), reserved_bytes = 0;
  for (const auto& segment : segments_.all()) {
    free_.space().check_invariants(*segment);
    reserved_bytes += segment->size_bytes;
  }
  VMART_CHECK(reserved_bytes == segments_.reserved_bytes(), "the segments are what is counted");
  free_.streams().for_each([&](StreamFrees& frees)
                               VMART_REQUIRES(frees.mutex) { free_bytes += frees.bins().bytes(); });
  VMART_CHECK(free_bytes + used_bytes_ == reserved_bytes, "a byte is free, pending or used");
}

}  // namespace vma
