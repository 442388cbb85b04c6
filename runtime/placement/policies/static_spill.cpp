#include "placement/policies/built_in_policies.hpp"

#include "placement/weighing/room_for_chunks.hpp"

namespace vma::inline v1 {
namespace {

/// `static`: first touch with spill. Memory is placed once and never moved.
///
/// Source: first-touch placement of Linux, whose allocator takes each page from the node of the CPU
/// that touches it and, when that is full, from the next one of that node's zone list, which is in
/// order of distance (`build_zonelists` in mm/page_alloc.c); and of MCM-GPU (Arunkumar et al., ISCA
/// 2017). The rule: each chunk, by itself, goes to the HBM of the device that asks; if it does not
/// fit there, to the fastest other place of that device where it does, by `MachineCosts::by_speed`:
/// the machine determines whether that is a peer or the host. So a small chunk may still find room
/// where a larger one before it did not. If no place has room the default applies, and the
/// allocation fails as it would without a policy.
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
