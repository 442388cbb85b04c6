#include "pools/free_blocks.hpp"

#include "base/log.hpp"

#include <exception>
#include <utility>
#include <vector>

namespace vma {
namespace {

const char in_search = 0;  // Holder of a block on its way.

}  // namespace

Block* FreeBlocks::search(const BlockRequest& request, const ReusePolicies& reuse) {
  // What the stream has freed comes before what all may have, if it is about as large. While some
  // of it is pending, a large range is cut only once all that is complete is joined; that asks
  // events, so a stream without frees does not. Small blocks come from slabs.
  const std::uint64_t tight_bytes = 2 * request.size_bytes;
  if (!request.small) {
    if (Block* const block = search_own(request, Join::new_ones, tight_bytes)) return block;
  }
  const bool pending =
      streams_.with(request.stream, request.id,
                    [](StreamFrees& own) VMART_REQUIRES(own.mutex) { return !own.bins().empty(); });
  if (Block* const block = take_complete(request, pending ? tight_bytes : UINT64_MAX)) return block;
  collect(reuse.opportunistic ? Ask::all : Ask::nothing);
  if (Block* const block = take_complete(request)) return block;
  if (Block* const block = search_own(request, Join::new_ones, UINT64_MAX)) return block;
  if (Block* const block = reuse.event_dependencies ? search_ordered(request) : nullptr)
    return block;
  if (Block* const block = search_own(request, Join::all, UINT64_MAX)) return block;
  streams_.for_each([&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    if (frees.id() != request.id && frees.unmarked()) frees.wanted = true;
  });
  return nullptr;
}

Block* FreeBlocks::take_complete(const BlockRequest& request, std::uint64_t bytes_max) {
  if (!request.small) {
    return space_.take(request.size_bytes, request.alignment,
                       FreeSpace::slack_of(request.size_bytes), bytes_max);
  }
  if (Block* const block = space_.take_small(request.size_bytes)) return block;
  Block* const range = space_.take(FreeSpace::slab_bytes(request.size_bytes), request.alignment, 0);
  if (range == nullptr) return nullptr;
  try {
    space_.make_slab(*range, request.size_bytes);
  } catch (...) {
    space_.put(*range);
    throw;
  }
  return space_.take_small(request.size_bytes);
}

/// Joins first: a small request would otherwise cut a large range while pieces of the same size lie
/// side by side.
Block* FreeBlocks::search_own(const BlockRequest& request, Join which, std::uint64_t bytes_max) {
  const auto search = [&](StreamFrees& own) VMART_REQUIRES(own.mutex) {
    collect_from(own);
    join(own, request, which);
    return cut_from(own, request, bytes_max, UINT64_MAX);
  };
  return streams_.with(request.stream, request.id, search);
}

Block* FreeBlocks::search_ordered(const BlockRequest& request) {
  const auto after =
      streams_.with(request.stream, request.id,
                    [](StreamFrees& own) VMART_REQUIRES(own.mutex) { return own.after; });
  Block* block = nullptr;
  for (const auto& [id, epoch] : after) {
    streams_.with_known(id, [&, epoch_max = epoch](StreamFrees& other) VMART_REQUIRES(other.mutex) {
      block = cut_from(other, request, UINT64_MAX, epoch_max);
    });
    if (block != nullptr) break;
  }
  return block;
}

/// The stream waits for frees of another one.
Block* FreeBlocks::search_waiting(const BlockRequest& request) {
  Block* found = nullptr;
  std::pair<std::uint64_t, std::uint64_t> waited;
  const BoundStream waits{driver_.stream_context(request.stream), request.stream};
  streams_.for_each([&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    if (found != nullptr || frees.id() == request.id) return;
    if (frees.lasts()) frees.mark();
    const StreamFrees::Mark mark = frees.newest_mark();
    if (is_none(mark.event)) return;
    Block* const block = cut_from(frees, request, UINT64_MAX, mark.epoch);
    if (block == nullptr) return;
    try {
      driver_.stream_wait_event(waits, mark.event);
      found = block;
      waited = {frees.id(), mark.epoch};
    } catch (const std::exception& error) {
      log(LogLevel::debug, "a stream cannot wait for frees of another one: {}", error.what());
      frees.put_back(*block);
    }
  });
  if (found == nullptr) return nullptr;
  try {
    streams_.with(request.stream, request.id, [&](StreamFrees& own) VMART_REQUIRES(own.mutex) {
      own.after[waited.first] = waited.second;
    });
  } catch (const std::exception& error) {  // The block is the stream's without that knowledge.
    log(LogLevel::debug, "a pool does not note an order of streams: {}", error.what());
  }
  return found;
}

Block* FreeBlocks::cut_from(StreamFrees& frees, const BlockRequest& request,
                            std::uint64_t bytes_max, std::uint64_t epoch_max) {
  Block* const block =
      frees.bins().best_fit(request.size_bytes, request.alignment, bytes_max, epoch_max);
  if (block == nullptr) return nullptr;
  frees.remove(*block);
  if (block->slab != nullptr) return block;
  block->holder = &in_search;
  try {
    return space_.cut(
        *block, request.size_bytes, request.alignment, FreeSpace::slack_of(request.size_bytes),
        [&frees](Block& spare) VMART_REQUIRES(frees.mutex) { frees.put_back(spare); });
  } catch (...) {
    frees.put_back(*block);
    throw;
  }
}

/// Joins neighbours that the stream has freed in the same epoch, so that none becomes known later
/// than it would alone. If `which` is all, joins all of them and, if the request fits then, also
/// those that are complete.
void FreeBlocks::join(StreamFrees& frees, const BlockRequest& request, Join which) {
  std::vector<Block*> ranges;
  const std::uint64_t since = which == Join::all ? 0 : frees.joined_puts;
  frees.bins().for_each_since(since, [&](Block& block) {
    if (block.slab == nullptr) ranges.push_back(&block);
  });
  const auto is_free = [&](const Block* block) { return block != nullptr && space_.has(*block); };
  for (Block* const range : ranges) {
    if (range->holder != frees.holder()) continue;  // Joined meanwhile.
    Block& joined = join_own_neighbours(frees, *range, which);
    const std::uint64_t beside_bytes = (is_free(joined.before) ? joined.before->size_bytes : 0) +
                                       (is_free(joined.after) ? joined.after->size_bytes : 0);
    const bool fits = which == Join::all && joined.size_bytes < request.size_bytes &&
                      joined.size_bytes + beside_bytes >= request.size_bytes;
    frees.put_back(fits ? space_.join_free_neighbours(joined) : joined);
    if (fits) break;
  }
  frees.joined_puts = frees.bins().puts();
}

/// Takes the range out, and joins it with those beside it that are the stream's.
Block& FreeBlocks::join_own_neighbours(StreamFrees& frees, Block& range, Join which) {
  Block* joined = &range;
  const auto is_like = [&](const Block* block) {
    return block != nullptr && block->holder == frees.holder() &&
           (which == Join::all || block->epoch == joined->epoch);
  };
  frees.remove(*joined);
  while (is_like(joined->after)) {
    frees.remove(*joined->after);
    space_.join(*joined, *joined->after);
  }
  while (is_like(joined->before)) {
    frees.remove(*joined->before);
    joined = joined->before;
    space_.join(*joined, *joined->after);
  }
  joined->holder = &in_search;
  return *joined;
}

// --- What has become complete

void FreeBlocks::collect_from(StreamFrees& frees) {
  if (!frees.take_news()) return;
  frees.bins().for_each([&](Block& block) VMART_REQUIRES(frees.mutex) {
    if (block.epoch > frees.done_epoch()) return;
    frees.remove(block);
    block.holder = &in_search;
    space_.put(block);
  });
}

void FreeBlocks::collect(Ask ask) {
  streams_.for_each([&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    if (ask == Ask::all && frees.lasts() && frees.unmarked()) frees.mark();
    if (ask != Ask::nothing) frees.poll();
    collect_from(frees);
  });
}

}  // namespace vma
