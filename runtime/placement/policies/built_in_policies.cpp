#include "placement/policies/built_in_policies.hpp"

#include "placement/auto/auto.hpp"
#include "placement/weighing/chunk_worth.hpp"
#include "placement/weighing/room_for_chunks.hpp"

#include <algorithm>
#include <map>
#include <typeinfo>

namespace vma::inline v1 {
namespace {

/// Rule: for each chunk and GPU, a counter tells how many seconds all uses since the chunk's last
/// move would have saved if the chunk had been in that GPU's HBM. The GPU's own remote uses add to
/// it; uses by others subtract what they would have lost; it never falls below zero. Once it
/// reaches `theta` times the cost of the move, the chunk moves there, if there is room.
///
/// From: D. L. Black, D. D. Sleator, "Competitive Algorithms for Replication and Migration
/// Problems", CMU-CS-89-201, 1989. Their bound of 3 holds for theta = 2 between places that are all
/// equally far; seconds replace their requests.
class Counter : public Policy {
 public:
  explicit Counter(const PolicyValues& values)
      : theta_(values["theta"]), stall_weight_(values["stall_weight"]) {}

  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override;
  void on_gone(ChunkId chunk) override { counts_.erase(chunk); }

 private:
  struct Count {
    std::uint32_t generation = 0;  // Of the chunk's row: a move starts a new one.
    std::vector<double> saved;     // Seconds, by GPU.
  };
  void count(const UseEvent& use, const ChunkRow& row, const Snapshot& snapshot);

  const double theta_, stall_weight_;
  std::map<ChunkId, Count> counts_;  // Of chunks that were used remotely since their last move.
};

void Counter::count(const UseEvent& use, const ChunkRow& row, const Snapshot& snapshot) {
  const MachineCosts& costs = snapshot.costs();
  auto found = counts_.find(use.chunk);
  if (found == counts_.end()) {
    if (row.at == use.device) return;  // Nothing to take from.
    found = counts_.emplace(use.chunk, Count{}).first;
  }
  Count& count = found->second;
  if (count.saved.empty() || count.generation != row.generation) {
    count.generation = row.generation;
    count.saved.assign(costs.gpus(), 0);
  }
  for (std::size_t gpu = 0; gpu < count.saved.size(); ++gpu) {
    const PlaceId home{static_cast<std::uint8_t>(gpu)};
    if (home == row.at || !costs.reaches(use.device, home)) continue;
    const double saved = saved_seconds(costs, use.device, row.at, home, use.bytes());
    count.saved[gpu] = std::max(0.0, count.saved[gpu] + saved);
  }
}

void Counter::on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) {
  const ChunkRow& row = snapshot.chunk(use.chunk);
  if (use.hint != nullptr || row.bytes == 0) return;
  if (!snapshot.costs().reaches(use.device, row.at)) return;
  count(use, row, snapshot);
  const auto found = counts_.find(use.chunk);
  if (found == counts_.end() || row.at == use.device || !may_move(row)) return;
  if (!can_lie(snapshot, use.chunk, use.device)) return;
  if (snapshot.place(use.device).free_bytes() < row.bytes) return;  // The next use tries again.
  const double saved = found->second.saved[index(use.device)];
  const double cost = move_seconds(snapshot.costs(), row.at, use.device, row.bytes, stall_weight_);
  if (saved < theta_ * cost) return;
  plan.move(use.chunk, use.device, saved - cost,
            "it would have saved " + time_text(saved) + " at " + name_of(snapshot, use.device) +
                " since its last move, which costs " + time_text(cost));
}

}  // namespace

PolicyKind counter_kind() {
  using Type = PolicyParameter::Type;
  return {"counter",
          "Black and Sleator, CMU-CS-89-201, 1989",
          {{"theta", Type::number, 2, 0.01, 1000,
            "moves when the net remote penalty is this many times the cost of the move"},
           {"stall_weight", Type::number, 1, 0, 100,
            "weight of a second during which a move stops the program's streams"}},
          [](const PolicyValues& values) -> std::unique_ptr<Policy> {
            return std::make_unique<Counter>(values);
          }};
}

namespace {

class Static final : public Policy {
 public:
  void on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                std::span<PlaceId> chunks) override {
    first_touch(request, snapshot, chunks);
  }
};

class StayPut final : public Policy {};

template <typename Kind>
std::unique_ptr<Policy> make_plain(const PolicyValues&) {
  return std::make_unique<Kind>();
}

}  // namespace

PolicyKind static_kind() {
  return {"static",
          "first touch of Linux and of MCM-GPU (ISCA 2017), spill in topology order",
          {},
          make_plain<Static>};
}

PolicyKind stay_put_kind() {
  return {"stay_put", "no policy: nothing moves", {}, make_plain<StayPut>};
}

}  // namespace vma::inline v1

namespace vma {

const PolicyRegistry& built_in_policies() {
  static const PolicyRegistry registry = [] {
    PolicyRegistry kinds;
    for (PolicyKind (*kind)() :
         {auto_kind, cost_benefit_kind, counter_kind, static_kind, stay_put_kind})
      kinds.add(kind());
    kinds.add_around("guarded", guarded_kind);
    kinds.add_around("repeating", repeating_kind);
    return kinds;
  }();
  return registry;
}

PolicyRegistry known_policies(const std::vector<PolicyKind>& own) {
  PolicyRegistry known = built_in_policies();
  for (const PolicyKind& kind : own) known.add(kind);
  return known;
}

std::unique_ptr<Policy> make_policy(const std::string& text) {
  return built_in_policies().make(text);
}

bool ignores_uses(const Policy& policy) {
  return typeid(policy) == typeid(Static) || typeid(policy) == typeid(StayPut);
}

}  // namespace vma
