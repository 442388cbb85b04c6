#include "placement/policies/built_in_policies.hpp"

#include "placement/policies/cost_benefit.hpp"
#include "placement/weighing/chunk_worth.hpp"

#include <map>
#include <utility>

namespace vma::inline v1 {
namespace {

/// Rule: `cost_benefit` decides, or `harvest` if requested, with the same parameters; but a chunk
/// that comes from host memory to HBM leaves a clean copy behind, and a chunk evicted to host
/// memory goes to the host that has its copy, so that nothing is copied. Only chunks declared
/// read-only keep one; a chunk that was seen written to is not expected to have one.
///
/// From: L. Xiang et al., "NOMAD: Non-Exclusive Memory Tiering via Transactional Page Migration",
/// OSDI 2024: its shadow pages. Its copies of pages that merely happen not to be written to are
/// left out.
class CleanCopy : public Policy {
 public:
  explicit CleanCopy(const PolicyValues& values)
      : inner_(values.flag("harvest") ? harvest_kind().make(values)
                                      : cost_benefit_kind().make(values)) {}

  void on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                std::span<PlaceId> chunks) override {
    inner_->on_alloc(request, snapshot, chunks);
  }
  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override;
  void on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) override;
  void on_tick(const Snapshot& snapshot, Plan& plan) override;
  void on_result(const MoveResult& result, const Snapshot& snapshot) override;
  void on_gone(ChunkId chunk) override;

 private:
  void keep_and_reuse(const Plan& inner, const Snapshot& snapshot, Plan& plan) const;
  PlaceId target_of(const Move& move, const Snapshot& snapshot, Room& room) const;

  const std::unique_ptr<Policy> inner_;
  std::map<ChunkId, PlaceId> copies_;  // The host where a chunk left a copy, until it goes there.
};

bool in_hbm(const Snapshot& snapshot, PlaceId place) {
  return index(place) < snapshot.costs().gpus();
}

/// The host with the chunk's copy, if it is evicted to a host; otherwise its original target.
PlaceId CleanCopy::target_of(const Move& move, const Snapshot& snapshot, Room& room) const {
  const ChunkRow& row = snapshot.chunk(move.chunk);
  const auto copy = copies_.find(move.chunk);
  const bool leaves = in_hbm(snapshot, row.at) && !in_hbm(snapshot, move.to);
  if (!leaves || copy == copies_.end() || copy->second == move.to) return move.to;
  const bool fits =
      can_lie(snapshot, move.chunk, copy->second) && room.holds(copy->second, row.bytes);
  return fits ? copy->second : move.to;
}

void CleanCopy::keep_and_reuse(const Plan& inner, const Snapshot& snapshot, Plan& plan) const {
  if (inner.empty()) return;
  Room room(snapshot);
  for (const Move& move : inner.moves()) {
    const ChunkRow& row = snapshot.chunk(move.chunk);
    const PlaceId to = target_of(move, snapshot, room);
    if (room.holds(to, row.bytes)) room.move(row.at, to, row.bytes);
    std::string reason = move.reason;
    const auto copy = copies_.find(move.chunk);
    if (copy != copies_.end() && copy->second == to) {
      reason += "; " + name_of(snapshot, to) + " should have a clean copy";
    }
    if (move.victim) {
      plan.evict(move.chunk, to, std::move(reason));
    } else {
      const bool promoted = !in_hbm(snapshot, row.at) && in_hbm(snapshot, to);
      plan.move(move.chunk, to, move.value, std::move(reason), promoted);
    }
  }
}

void CleanCopy::on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) {
  if (use.bytes_written > 0) copies_.erase(use.chunk);
  Plan inner;
  inner_->on_use(use, snapshot, inner);
  keep_and_reuse(inner, snapshot, plan);
}

void CleanCopy::on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) {
  Plan inner;
  inner_->on_pressure(pressure, snapshot, inner);
  keep_and_reuse(inner, snapshot, plan);
}

void CleanCopy::on_tick(const Snapshot& snapshot, Plan& plan) {
  Plan inner;
  inner_->on_tick(snapshot, inner);
  keep_and_reuse(inner, snapshot, plan);
}

/// Moves that the policy did not plan, or that continue from there, are not reported: a copy is
/// assumed where the chunk last came from. If that is wrong, or no copy was kept since the chunk
/// may be written to, it costs a copy, and perhaps a slower place than the other policy's.
void CleanCopy::on_result(const MoveResult& result, const Snapshot& snapshot) {
  inner_->on_result(result, snapshot);
  if (!result.moved) return;
  if (!in_hbm(snapshot, result.from) && in_hbm(snapshot, result.to)) {
    copies_[result.chunk] = result.from;
  } else if (!in_hbm(snapshot, result.to)) {
    copies_.erase(result.chunk);  // Used, or left behind for good.
  }
}

void CleanCopy::on_gone(ChunkId chunk) {
  inner_->on_gone(chunk);
  copies_.erase(chunk);
}

}  // namespace

PolicyKind clean_copy_kind() {
  PolicyKind kind = harvest_kind();  // Its parameters are the inner policies'.
  kind.name = "clean_copy";
  kind.source = "NOMAD, OSDI 2024: its shadow pages; around cost_benefit or harvest";
  kind.parameters.push_back(
      {"harvest", PolicyParameter::Type::flag, 0, 0, 1,
       "harvest decides instead of cost_benefit; only then does reserve matter"});
  kind.make = [](const PolicyValues& values) -> std::unique_ptr<Policy> {
    return std::make_unique<CleanCopy>(values);
  };
  return kind;
}

}  // namespace vma::inline v1
