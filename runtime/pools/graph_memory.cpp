#include "pools/graph_memory.hpp"

#include "base/log.hpp"

#include <vma/error.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {

void GraphMemory::keep(Block& block) {
  blocks_.push_back(&block);
  block.freed_late = false;
  block.graph = this;
}

Block* GraphMemory::take(StreamHandle stream, std::uint64_t size_bytes, std::uint64_t alignment) {
  const auto freed = freed_.find(stream);
  if (freed == freed_.end()) return nullptr;
  Block* const block = freed->second.close_fit(size_bytes, alignment);
  if (block != nullptr) freed->second.remove(*block);
  return block;
}

void GraphMemory::put(StreamHandle stream, Block& block) {
  freed_[stream].put(block);
}

void GraphMemory::free_late(Block& block, BoundStream stream, std::uint64_t id) {
  const auto [place, first] = late_frees_.try_emplace(id, LateFree{stream, {}});
  try {
    if (first) place->second.event = contexts_.take_event(stream.context);
    driver_.record(place->second.event, stream);
  } catch (...) {
    if (first) {
      if (!is_none(place->second.event)) {
        contexts_.give_back(stream.context, place->second.event);
      }
      late_frees_.erase(place);
    }
    throw;
  }
  block.freed_late = true;
}

bool GraphMemory::is_over() noexcept {
  if (!*ended_) return false;
  return std::ranges::all_of(late_frees_, [this](const auto& late) {
    try {
      return driver_.query_event(late.second.event);
    } catch (const Error& error) {
      log(LogLevel::debug, "an event that a pool waits for failed: {}", error.what());
      return context_is_broken(error.native());
    } catch (const std::exception&) {
      return false;
    }
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
  forget_events();
}

void GraphMemory::forget_events() noexcept {
  for (const auto& [id, late] : late_frees_) {
    contexts_.give_back(late.stream.context, late.event);
  }
  late_frees_.clear();
}

// --- GraphMemories

GraphMemory& GraphMemories::of(StreamHandle stream, std::uint64_t capture) {
  for (const auto& graph : all_) {
    if (graph->capture() == capture) return *graph;
  }
  auto graph = std::make_unique<GraphMemory>(driver_, contexts_, capture);
  all_.reserve(all_.size() + 1);
  const std::shared_ptr<std::atomic<bool>> ended = graph->ended();
  driver_.at_graph_end({driver_.stream_context(stream), stream}, [ended] { *ended = true; });
  all_.push_back(std::move(graph));
  return *all_.back();
}

void GraphMemories::collect(const std::function<void(Block&)>& let_go) {
  for (std::size_t i = 0; i < all_.size();) {
    if (!all_[i]->is_over()) {
      ++i;
      continue;
    }
    all_[i]->release(let_go);
    std::swap(all_[i], all_.back());
    all_.pop_back();
  }
}

void GraphMemories::close() noexcept {
  for (const auto& graph : all_) graph->forget_events();
  all_.clear();
}

}  // namespace vma
