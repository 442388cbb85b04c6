#include "placement/victims/victim_losses.hpp"

#include <algorithm>
#include <span>

namespace vma::inline v1 {

void VictimLosses::begin() {
  ways_.clear();
  ++call_;
}

void VictimLosses::weigh(const Snapshot& snapshot, ChunkId chunk, Weighed& weighed) {
  weighed = {call_, static_cast<std::uint32_t>(ways_.size()), 0};
  for (const PlaceId to : slower_places(snapshot, chunk))
    if (can_lie(snapshot, chunk, to)) ways_.push_back({to});
  weighed.count = static_cast<std::uint32_t>(ways_.size()) - weighed.first;
  if (weighed.count == 0) return;
  outlook_.read(snapshot, chunk, horizon_seconds_);
  if (!outlook_.announced()) shifts_.correct(chunk, snapshot, false, outlook_);
  shifts_.correct(chunk, snapshot, true, outlook_);
  const double here = outlook_.all_seconds_at(snapshot.chunk(chunk).at);
  for (Way& way : std::span(ways_).subspan(weighed.first))
    way.lost = std::max(0.0, outlook_.all_seconds_at(way.to) - here);
}

const VictimLosses::Way* VictimLosses::next(const Snapshot& snapshot, ChunkId chunk,
                                            const Room& room) {
  if (index(chunk) >= chunks_.size()) chunks_.resize(snapshot.chunks().size());
  Weighed& weighed = chunks_[index(chunk)];
  if (weighed.call != call_) weigh(snapshot, chunk, weighed);
  const std::uint64_t bytes = snapshot.chunk(chunk).bytes;
  for (const Way& way : std::span(ways_).subspan(weighed.first, weighed.count))
    if (room.holds(way.to, bytes)) return &way;
  return nullptr;
}

}  // namespace vma::inline v1
