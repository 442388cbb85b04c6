#include "placement/policies/built_in_policies.hpp"

#include "placement/weighing/chunk_worth.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace vma::inline v1 {
namespace {

constexpr std::size_t watched_max = 65536;  // Hints beyond that are not followed.

/// Rule: a hint says how many passes a GPU will make over a chunk. The chunk moves to that GPU's
/// HBM if trust x passes x bytes x (seconds per byte from where it is, minus seconds per byte at
/// home) is at least the cost of the move; at once if the use begins within `lead` or at no known
/// time, otherwise when it is that near. For chunks without a hint, and once trust is below
/// `trust_least`, the rule of `counter` decides. Until a trusted hint has come true or failed, its
/// chunk is left where the hint wants it.
///
/// A hint has come true once its GPU has used half of what was announced; it has failed if that did
/// not happen by its `until` or, if it has none, by `patience` after the announced time. One that
/// announces no pass does neither: nothing is used. Trust begins at 1, loses the share `distrust`
/// with each hint that fails, and regains half that share of what it lacks with each that comes
/// true. Hints are watched whether they are followed or not, so that trust can return.
///
/// From: P. Indyk, F. Mallmann-Trenn, S. Mitrovic, R. Rubinfeld, "Online Page Migration with ML
/// Advice", AISTATS 2022: predictions that are followed while they are good, with a fallback that
/// is competitive without any.
class Hinted : public Policy {
 public:
  explicit Hinted(const PolicyValues& values)
      : lead_(values.duration("lead")),
        patience_(values.duration("patience")),
        distrust_(values["distrust"]),
        trust_least_(values["trust_least"]),
        stall_weight_(values["stall_weight"]),
        fallback_(counter_kind().make(values)) {}

  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override;
  void on_tick(const Snapshot& snapshot, Plan& plan) override;
  void on_gone(ChunkId chunk) override;

 private:
  struct Watched {
    PlaceId device{};
    double bytes = 0;  // Announced bytes, and used bytes.
    double seen = 0;
    Time begin{0}, deadline{0};
    bool asked = false;  // The move was decided on, one way or the other.
  };
  void watch(const UseEvent& use, const Snapshot& snapshot);
  void see(const UseEvent& use);
  void judge(std::map<ChunkId, Watched>::iterator hint, bool came_true);
  void unwatch(std::map<ChunkId, Watched>::iterator hint);
  void follow(ChunkId chunk, const Snapshot& snapshot, Plan& plan);
  bool trusted() const { return trust_ >= trust_least_; }

  const Time lead_, patience_;
  const double distrust_, trust_least_, stall_weight_;
  const std::unique_ptr<Policy> fallback_;
  double trust_ = 1;
  std::map<ChunkId, Watched> watched_;
  std::set<std::pair<Time, ChunkId>> begins_, deadlines_;  // Of those in `watched_`.
};

void Hinted::watch(const UseEvent& use, const Snapshot& snapshot) {
  const auto old = watched_.find(use.chunk);
  if (old != watched_.end()) unwatch(old);  // The last hint counts; the former has not failed.
  if (watched_.size() >= watched_max) return;
  const Hint& hint = *use.hint;
  if (!(hint.passes > 0)) return;  // It announces no use.
  Watched watched;
  watched.device = use.device;
  watched.bytes = hint.passes * static_cast<double>(snapshot.chunk(use.chunk).bytes);
  watched.begin = hint.next_use ? std::max(*hint.next_use, snapshot.now()) : snapshot.now();
  watched.deadline = std::min(watched.begin, Time::max() - patience_) + patience_;
  if (hint.until) watched.deadline = std::max(*hint.until, snapshot.now());
  watched_.emplace(use.chunk, watched);
  begins_.emplace(watched.begin, use.chunk);
  deadlines_.emplace(watched.deadline, use.chunk);
}

void Hinted::on_gone(ChunkId chunk) {
  fallback_->on_gone(chunk);
  const auto found = watched_.find(chunk);
  if (found != watched_.end()) unwatch(found);
}

void Hinted::unwatch(std::map<ChunkId, Watched>::iterator hint) {
  begins_.erase({hint->second.begin, hint->first});
  deadlines_.erase({hint->second.deadline, hint->first});
  watched_.erase(hint);
}

void Hinted::judge(std::map<ChunkId, Watched>::iterator hint, bool came_true) {
  trust_ = came_true ? trust_ + (1 - trust_) * distrust_ / 2 : trust_ * (1 - distrust_);
  unwatch(hint);
}

void Hinted::see(const UseEvent& use) {
  const auto found = watched_.find(use.chunk);
  if (found == watched_.end() || found->second.device != use.device) return;
  found->second.seen += use.bytes();
  if (2 * found->second.seen >= found->second.bytes) judge(found, true);
}

void Hinted::follow(ChunkId chunk, const Snapshot& snapshot, Plan& plan) {
  const auto found = watched_.find(chunk);
  if (found == watched_.end() || found->second.asked || !trusted()) return;
  const ChunkRow& row = snapshot.chunk(chunk);
  const MachineCosts& costs = snapshot.costs();
  Watched& hint = found->second;
  if (row.at == hint.device || !may_move(row)) return;
  if (!can_lie(snapshot, chunk, hint.device)) return;
  if (snapshot.place(hint.device).free_bytes() < row.bytes) return;  // Tried again each tick.
  // What the device cannot reach at all, it saves any time.
  const double saved =
      trust_ * saved_seconds(costs, hint.device, row.at, hint.device, hint.bytes - hint.seen);
  const double cost = move_seconds(costs, row.at, hint.device, row.bytes, stall_weight_);
  hint.asked = true;
  begins_.erase({hint.begin, chunk});
  if (saved < cost) return;
  const int percent = static_cast<int>(100 * trust_ + 0.5);
  plan.move(chunk, hint.device, std::min(saved, 1e6) - cost,
            name_of(snapshot, hint.device) + " announced use that takes " + time_text(saved) +
                " less there, at a trust of " + std::to_string(percent) + " %; the move costs " +
                time_text(cost));
}

void Hinted::on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) {
  if (snapshot.chunk(use.chunk).bytes == 0) return;
  if (use.hint != nullptr) {
    watch(use, snapshot);
    const auto found = watched_.find(use.chunk);
    if (found != watched_.end() && found->second.begin <= snapshot.now() + lead_)
      follow(use.chunk, snapshot, plan);
    return;
  }
  const auto found = watched_.find(use.chunk);
  const bool bound =
      found != watched_.end() && trusted() && found->second.device == snapshot.chunk(use.chunk).at;
  see(use);
  Plan of_counter;  // It also counts uses that are not acted on.
  fallback_->on_use(use, snapshot, of_counter);
  if (bound) return;
  for (const Move& move : of_counter.moves())
    plan.move(move.chunk, move.to, move.value, move.reason);
}

void Hinted::on_tick(const Snapshot& snapshot, Plan& plan) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= snapshot.now()) {
    judge(watched_.find(deadlines_.begin()->second), false);
  }
  std::vector<ChunkId> near;
  for (const auto& [begin, chunk] : begins_) {
    if (begin > snapshot.now() + lead_) break;
    near.push_back(chunk);
  }
  for (const ChunkId chunk : near) follow(chunk, snapshot, plan);
}

}  // namespace

PolicyKind hinted_kind() {
  using Type = PolicyParameter::Type;
  PolicyKind kind = counter_kind();  // Its parameters are the fallback's.
  kind.name = "hinted";
  kind.source = "Indyk, Mallmann-Trenn, Mitrovic and Rubinfeld, AISTATS 2022";
  kind.parameters.push_back(
      {"lead", Type::duration, 1, 0, 3600, "how long before an announced use its chunk may move"});
  kind.parameters.push_back({"patience", Type::duration, 5, 0.001, 3600,
                             "how late an announced use may still come true"});
  kind.parameters.push_back({"distrust", Type::number, 0.25, 0, 1,
                             "fraction of the trust lost for each hint that does not come true"});
  kind.parameters.push_back({"trust_least", Type::number, 0.25, 0, 1,
                             "below this trust, hints are observed but not followed"});
  kind.make = [](const PolicyValues& values) -> std::unique_ptr<Policy> {
    return std::make_unique<Hinted>(values);
  };
  return kind;
}

}  // namespace vma::inline v1
