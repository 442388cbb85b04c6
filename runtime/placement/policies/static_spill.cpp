#include "placement/policies/static_spill.hpp"

#include "placement/weighing/room_for_chunks.hpp"

namespace vma::inline v1 {
namespace {

class StaticSpill final : public Policy {
 public:
  void on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                std::span<PlaceId> chunks) override {
    RoomForChunks room(snapshot);
    const std::span<const PlaceId> order = snapshot.costs().by_speed(request.device);
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (const auto at = room.take_first(order, chunk_bytes_of(request, i))) chunks[i] = *at;
    }
  }
};

}  // namespace

PolicyKind static_spill_kind() {
  return {
      "static",
      "first touch of Linux and of MCM-GPU (ISCA 2017), spill in topology order",
      {},
      [](const PolicyValues&) { return std::unique_ptr<Policy>(std::make_unique<StaticSpill>()); }};
}

}  // namespace vma::inline v1
