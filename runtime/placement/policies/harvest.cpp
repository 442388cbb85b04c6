#include "placement/policies/built_in_policies.hpp"

#include "base/printable.hpp"
#include "placement/policies/cost_benefit.hpp"
#include "placement/weighing/chunk_worth.hpp"

#include <map>
#include <utility>

namespace vma::inline v1 {
namespace {

/// Rule: `cost_benefit` decides, with the same parameters; but a chunk evicted from a GPU's HBM
/// goes to a lender: the first peer in the order of the victim's users' topology that still has
/// `reserve` of its capacity free. The order is the topology's, so if host memory is faster than a
/// peer, it goes to the host. A chunk at a lender goes to host memory when it is evicted again,
/// never to a second lender; and a lender under pressure first gives up what it holds for others.
///
/// From: S. Choi et al., "Memory Harvesting in Multi-GPU Systems with Hierarchical Unified Virtual
/// Memory" (HUVM, memHarvester), USENIX ATC 2022. Its additional copy at the host is left out.
class Harvest : public Policy {
 public:
  explicit Harvest(const PolicyValues& values)
      : reserve_(values["reserve"]), inner_(cost_benefit_kind().make(values)) {}

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
  void send_to_lenders(const Plan& inner, const Snapshot& snapshot, Room& room, Plan& plan);
  bool is_lender(const Snapshot& snapshot, ChunkId chunk, PlaceId place, const Room& room) const;
  std::optional<PlaceId> place_for(const Snapshot& snapshot, ChunkId chunk, const Room& room) const;
  bool is_lent(const Snapshot& snapshot, ChunkId chunk) const;

  const double reserve_;
  const std::unique_ptr<Policy> inner_;
  std::map<ChunkId, PlaceId> lenders_;  // Of chunks sent to one, until they leave it.
};

bool Harvest::is_lent(const Snapshot& snapshot, ChunkId chunk) const {
  const auto found = lenders_.find(chunk);
  if (found == lenders_.end() || found->second != snapshot.chunk(chunk).at) return false;
  const std::optional<MainUser> user = main_user(snapshot, chunk);
  return !user || user->device != found->second;  // Otherwise it has come home.
}

bool Harvest::is_lender(const Snapshot& snapshot, ChunkId chunk, PlaceId place,
                        const Room& room) const {
  const auto reserved = static_cast<std::uint64_t>(
      reserve_ * static_cast<double>(snapshot.place(place).capacity_bytes));
  return !is_lent(snapshot, chunk) && room.at(place) > reserved &&
         room.at(place) - reserved >= snapshot.chunk(chunk).bytes;
}

/// The first place of the order that accepts the chunk: a lender or a host with room.
std::optional<PlaceId> Harvest::place_for(const Snapshot& snapshot, ChunkId chunk,
                                          const Room& room) const {
  const ChunkRow& row = snapshot.chunk(chunk);
  const MachineCosts& costs = snapshot.costs();
  const std::optional<MainUser> user = main_user(snapshot, chunk);
  for (const PlaceId place : costs.by_speed(user ? user->device : row.at)) {
    if (place == row.at || (user && place == user->device)) continue;
    if (!can_lie(snapshot, chunk, place)) continue;
    const bool gpu = index(place) < costs.gpus();
    if (gpu ? is_lender(snapshot, chunk, place, room) : room.holds(place, row.bytes)) return place;
  }
  return std::nullopt;
}

/// Chunks that `inner` evicts from a GPU go to lenders; the rest is unchanged. A victim that finds
/// no place goes to its original target.
void Harvest::send_to_lenders(const Plan& inner, const Snapshot& snapshot, Room& room, Plan& plan) {
  const auto take = [&](const Move& move, PlaceId to) {
    const ChunkRow& row = snapshot.chunk(move.chunk);
    const bool fits = room.holds(to, row.bytes);
    if (fits) room.move(row.at, to, row.bytes);
    return fits;
  };
  // Chunks that come to a place without victims count there before anything is lent: own need
  // first.
  std::vector<bool> counted;
  for (const Move& move : inner.moves()) counted.push_back(!move.victim && take(move, move.to));
  for (std::size_t i = 0; i < inner.moves().size(); ++i) {
    const Move& move = inner.moves()[i];
    const PlaceId from = snapshot.chunk(move.chunk).at;
    if (!move.victim) {
      if (!counted[i]) take(move, move.to);
      plan.move(move.chunk, move.to, move.value, move.reason);
      continue;
    }
    std::optional<PlaceId> to;
    if (index(from) < snapshot.costs().gpus()) to = place_for(snapshot, move.chunk, room);
    if (!to) to = move.to;
    take(move, *to);
    std::string reason = move.reason;
    if (index(*to) < snapshot.costs().gpus()) {
      reason += "; " + name_of(snapshot, *to) + " lends, asked for " +
                rate_text(snapshot.place(*to).demand_bytes_s) + " itself";
      lenders_[move.chunk] = *to;
    }
    plan.evict(move.chunk, *to, std::move(reason));
  }
}

void Harvest::on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) {
  Plan inner;
  inner_->on_use(use, snapshot, inner);
  if (inner.empty()) return;
  Room room(snapshot);
  send_to_lenders(inner, snapshot, room, plan);
}

void Harvest::on_tick(const Snapshot& snapshot, Plan& plan) {
  Plan inner;
  inner_->on_tick(snapshot, inner);
  if (inner.empty()) return;
  Room room(snapshot);
  send_to_lenders(inner, snapshot, room, plan);
}

void Harvest::on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) {
  Room room(snapshot);
  std::uint64_t freed = 0;
  for (auto lent = lenders_.rbegin(); lent != lenders_.rend() && freed < pressure.bytes; ++lent) {
    const ChunkId chunk = lent->first;
    const ChunkRow& row = snapshot.chunk(chunk);
    if (lent->second != pressure.at || !is_lent(snapshot, chunk) || !may_move(row)) continue;
    const std::optional<PlaceId> to = place_for(snapshot, chunk, room);
    if (!to) continue;
    room.move(row.at, *to, row.bytes);
    freed += row.bytes;
    plan.evict(chunk, *to,
               "lent by " + name_of(snapshot, row.at) + ", which wants " +
                   bytes_text(pressure.bytes) + " back");
  }
  if (freed >= pressure.bytes) return;
  Plan inner, others;
  Pressure rest = pressure;
  rest.bytes -= freed;
  inner_->on_pressure(rest, snapshot, inner);
  if (inner.declines()) plan.decline();
  for (const Move& move : inner.moves()) {
    if (!is_lent(snapshot, move.chunk)) others.evict(move.chunk, move.to, move.reason);
  }
  send_to_lenders(others, snapshot, room, plan);
}

void Harvest::on_result(const MoveResult& result, const Snapshot& snapshot) {
  inner_->on_result(result, snapshot);
  const auto found = lenders_.find(result.chunk);
  if (found == lenders_.end()) return;
  if (snapshot.chunk(result.chunk).at != found->second) lenders_.erase(found);
}

void Harvest::on_gone(ChunkId chunk) {
  inner_->on_gone(chunk);
  lenders_.erase(chunk);
}

}  // namespace

PolicyKind harvest_kind() {
  PolicyKind kind = cost_benefit_kind();  // Its parameters are the inner policy's.
  kind.name = "harvest";
  kind.source = "HUVM (memHarvester), USENIX ATC 2022; around cost_benefit";
  kind.parameters.push_back({"reserve", PolicyParameter::Type::number, 0.1, 0, 1,
                             "fraction of its capacity that a lender keeps free"});
  kind.make = [](const PolicyValues& values) -> std::unique_ptr<Policy> {
    return std::make_unique<Harvest>(values);
  };
  return kind;
}

}  // namespace vma::inline v1
