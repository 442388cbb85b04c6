#include <vma/policy.hpp>

namespace vma::inline v1 {

Policy::~Policy() = default;
void Policy::on_alloc(const AllocRequest&, const Snapshot&, std::span<PlaceId>) {}
void Policy::on_use(const UseEvent&, const Snapshot&, Plan&) {}
void Policy::on_pressure(const Pressure&, const Snapshot&, Plan&) {}
void Policy::on_tick(const Snapshot&, Plan&) {}
void Policy::on_result(const MoveResult&, const Snapshot&) {}
void Policy::on_gone(ChunkId) {}

}  // namespace vma::inline v1
