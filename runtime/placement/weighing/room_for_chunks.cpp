#include "placement/weighing/room_for_chunks.hpp"

#include <algorithm>

namespace vma::inline v1 {

std::uint64_t chunk_bytes_of(const AllocRequest& request, std::size_t i) {
  const std::uint64_t before = request.chunk_bytes * i;
  return before < request.bytes ? std::min(request.chunk_bytes, request.bytes - before) : 0;
}

RoomForChunks::RoomForChunks(const Snapshot& snapshot) {
  free_.reserve(snapshot.places().size());
  for (const PlaceState& place : snapshot.places()) free_.push_back(place.free_bytes());
}

RoomForChunks::RoomForChunks(const Snapshot& snapshot, const ProposalsOfNow& proposals)
    : RoomForChunks(snapshot) {
  for (std::size_t at = 0; at < free_.size(); ++at) {
    free_[at] -= std::min(free_[at], proposals.bytes_to(PlaceId{static_cast<std::uint8_t>(at)}));
  }
}

std::optional<PlaceId> RoomForChunks::take_first(std::span<const PlaceId> order,
                                                 std::uint64_t bytes) {
  for (const PlaceId at : order) {
    if (!fits(at, bytes)) continue;
    take(at, bytes);
    return at;
  }
  return std::nullopt;
}

void first_touch(const AllocRequest& request, const Snapshot& snapshot, std::span<PlaceId> chunks) {
  RoomForChunks room(snapshot);
  const std::span<const PlaceId> order = snapshot.costs().by_speed(request.device);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (const auto at = room.take_first(order, chunk_bytes_of(request, i))) chunks[i] = *at;
  }
}

void RouteBudget::refill(const MachineCosts& costs, Time now) {
  const bool fresh = places_ != costs.places();
  if (!fresh && now <= refilled_) return;
  const double passed =
      fresh ? burst_seconds_ : std::chrono::duration<double>(now - refilled_).count();
  if (fresh) {
    bytes_.assign(costs.places() * costs.places(), 0);
    places_ = costs.places();
  }
  for (std::size_t from = 0; from < places_; ++from) {
    for (std::size_t to = 0; to < places_; ++to) {
      const double rate = share_ * costs.copy_rate(PlaceId{static_cast<std::uint8_t>(from)},
                                                   PlaceId{static_cast<std::uint8_t>(to)});
      double& bytes = bytes_[from * places_ + to];
      bytes = std::min(rate * burst_seconds_, bytes + rate * passed);
    }
  }
  refilled_ = now;
}

}  // namespace vma::inline v1
