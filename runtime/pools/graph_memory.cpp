#include "pools/graph_memory.hpp"

#include <algorithm>
#include <utility>

namespace vma {

CapturedStream CapturedStream::of(Driver& driver, StreamHandle handle) {
  if (handle != stream_of_thread) return {handle, {}, nullptr};
  return {handle, driver.stream_context(handle), this_thread_end()};
}

void GraphMemory::keep(Block& block) {
  blocks_.push_back(&block);
  block.freed_late = false;
  block.graph = this;
}

Block* GraphMemory::take(const CapturedStream& stream, std::uint64_t size_bytes,
                         std::uint64_t alignment) {
  const auto freed = freed_.find(stream);
  if (freed == freed_.end()) return nullptr;
  Block* const block = freed->second.close_fit(size_bytes, alignment);
  if (block != nullptr) freed->second.remove(*block);
  return block;
}

void GraphMemory::put(const CapturedStream& stream, Block& block) {
  freed_[stream].put(block);
}

void GraphMemory::free_late(Block& block, std::uint64_t id, std::uint64_t epoch) {
  late_frees_[id] = epoch;
  block.freed_late = true;
}

/// A stream that the pool no longer knows has nothing left to complete.
bool GraphMemory::is_over(StreamBook& streams) noexcept {
  return has_ended() && std::ranges::all_of(late_frees_, [&](const auto& late) {
           bool done = true;
           streams.with_known(late.first, [&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
             done = frees.is_done(late.second);
           });
           return done;
         });
}

void GraphMemory::release(const std::function<void(Block&)>& let_go) {
  for (auto& [stream, bins] : freed_) {
    bins.for_each([&bins = bins](Block& block) {
      bins.remove(block);
      block.freed_late = true;
    });
  }
  for (Block* block : blocks_) {
    block->graph = nullptr;
    let_go(*block);
  }
  blocks_.clear();
}

// --- GraphMemories

GraphMemory& GraphMemories::of(StreamHandle stream, std::uint64_t capture) {
  for (const auto& graph : all_) {
    if (graph->capture() == capture) return *graph;
  }
  auto graph = std::make_unique<GraphMemory>(capture);
  all_.reserve(all_.size() + 1);
  const std::shared_ptr<std::atomic<bool>> ended = graph->ended();
  driver_.at_graph_end({driver_.stream_context(stream), stream}, [ended] { *ended = true; });
  all_.push_back(std::move(graph));
  return *all_.back();
}

void GraphMemories::collect(StreamBook& streams, const std::function<void(Block&)>& let_go) {
  for (std::size_t i = 0; i < all_.size();) {
    if (!all_[i]->is_over(streams)) {
      ++i;
      continue;
    }
    all_[i]->release(let_go);
    std::swap(all_[i], all_.back());
    all_.pop_back();
  }
}

bool GraphMemories::any_lasts() const noexcept {
  return std::ranges::any_of(all_, [](const auto& graph) { return !graph->has_ended(); });
}

}  // namespace vma
