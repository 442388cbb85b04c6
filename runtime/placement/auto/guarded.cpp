#include "placement/auto/auto.hpp"

#include "base/units.hpp"
#include "placement/weighing/chunk_worth.hpp"
#include "placement/weighing/room_for_chunks.hpp"
#include "placement/auto/guard_account.hpp"
#include "placement/auto/path_limits.hpp"
#include "placement/auto/plan_groups.hpp"

#include <vma/error.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace vma::inline v1 {
namespace {

constexpr std::size_t guests_looked_at = 64;  // To make room for one chunk that goes back.
constexpr Time back_off_most = std::chrono::minutes(10);

/// `guarded+NAME`: another policy, which decides only as long as its moves pay.
///
/// Rule: a shadow says where each chunk would lie under `static` (`StaticShadow`). Each use is
/// charged with the seconds that it takes where the chunk lies and with those at the shadow's
/// place; a saving counts only as far as the paths hold the GPU up (`PathLimits`). Each move is
/// charged with its time and with its stall for each GPU that works. The difference is an account
/// (`GuardAccount`). While it has a balance, the inner policy decides. Once it is overdrawn,
/// nothing moves until the back-off has ended, but for chunks that lie worse than in the shadow:
/// they go back there once their uses have lost as much as the way back costs. The uses of chunks
/// that the policy has not moved have an account of their own: while that is overdrawn, memory is
/// placed as by `static`. The inner policy sees everything all the time, so it does not start anew.
///
/// From: set dueling, M. Qureshi et al., "Adaptive Insertion Policies for High Performance
/// Caching", ISCA 2007: a few sets follow each policy all the time, and tell which one the others
/// are to follow. The shadow takes the place of the sets that follow `static`, the back-off that of
/// the others.
class Guarded : public Policy {
 public:
  Guarded(std::unique_ptr<Policy> inner, const PolicyValues& values)
      : inner_(std::move(inner)),
        limits_(values["guard_limit"]),
        shadow_limits_(values["guard_limit"]),
        account_(limits_of(values)),
        placing_(limits_of(values)) {}

  void on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                std::span<PlaceId> chunks) override;
  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override;
  void on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) override;
  void on_tick(const Snapshot& snapshot, Plan& plan) override;
  void on_result(const MoveResult& result, const Snapshot& snapshot) override;
  void on_gone(ChunkId chunk) override;
  void prepare(ChunkId chunk) const override {
    shadow_.prepare(chunk);
    prepare_cell(chunks_, chunk);
    inner_->prepare(chunk);
  }

 private:
  struct Pending {
    PlaceId to{};
    double cost = 0;
  };
  struct Chunk {
    double saved = 0;    // By its uses, since it lies where it lies.
    bool moved = false;  // By the policy, since it was placed.
  };

  static GuardAccount::Limits limits_of(const PolicyValues& values) {
    return {values["guard_start"], values["guard_allowance"], values.duration("guard_half_life"),
            values.duration("guard_back_off"), back_off_most};
  }
  void book(const UseEvent& use, const Snapshot& snapshot);
  Chunk& chunk_of(ChunkId chunk);
  double cost(ChunkId chunk, PlaceId to, const Snapshot& snapshot) const;
  void pass(const Plan& proposals, const Snapshot& snapshot, Plan& plan);
  void pass_group(std::span<const Move> group, const Snapshot& snapshot, Plan& plan);
  void promise(ChunkId chunk, PlaceId to, double cost);
  void drop_refused(const Snapshot& snapshot);
  void go_back(ChunkId chunk, const Snapshot& snapshot, Plan& plan);
  bool make_way(ChunkId chunk, PlaceId to, const Snapshot& snapshot, Room& room, Plan& plan);
  void note_lodging(ChunkId chunk, PlaceId from, PlaceId at, const Snapshot& snapshot);

  const std::unique_ptr<Policy> inner_;
  PathLimits limits_, shadow_limits_;  // As memory lies, and as it would lie in the shadow.
  GuardAccount account_;               // Of moves.
  GuardAccount placing_;               // Of where new memory is placed.
  StaticShadow shadow_;
  std::vector<Chunk> chunks_;
  WorkingGpus working_;
  std::vector<std::set<ChunkId>> guests_;  // By place: what first touch would not have put there.
  std::map<ChunkId, Pending> pending_;     // Passed on, and neither made nor refused so far.
  double pending_cost_ = 0;
};

Guarded::Chunk& Guarded::chunk_of(ChunkId chunk) {
  if (index(chunk) >= chunks_.size()) chunks_.resize(index(chunk) + 1);
  return chunks_[index(chunk)];
}

// --- The account

void Guarded::book(const UseEvent& use, const Snapshot& snapshot) {
  const ChunkRow& row = snapshot.chunk(use.chunk);
  const PlaceId shadow = shadow_.at(use.chunk, snapshot);
  if (row.dropped || row.parked) return;
  limits_.note(use, row.at, snapshot);
  shadow_limits_.note(use, shadow, snapshot);
  working_.note(use.device, snapshot.now());
  const MachineCosts& costs = snapshot.costs();
  const double then = costs.access_seconds(use.device, shadow, use.bytes());
  const double now = costs.access_seconds(use.device, row.at, use.bytes());
  if (!std::isfinite(then) || !std::isfinite(now)) return;
  double held_up = 0, saved = 0;
  if (row.at != shadow) {
    held_up =
        then * shadow_limits_.share(use.device, shadow) - now * limits_.share(use.device, row.at);
    // A loss counts in any case, a saving only as far as paths hold the GPU up.
    saved = std::min(then - now, held_up);
  }
  Chunk& chunk = chunk_of(use.chunk);
  chunk.saved += saved;
  // GPUs that work together wait for each other: what may be lost is a part of their time, not of
  // the sum of their times.
  const double each = then / static_cast<double>(working_.count(snapshot.now()));
  account_.used(each, chunk.moved ? saved : 0);
  // What is placed far makes room for other memory: its loss counts like what that saves.
  placing_.used(each, chunk.moved ? 0 : held_up);
}

/// Seconds of a move, and of its stall for each GPU that works.
double Guarded::cost(ChunkId chunk, PlaceId to, const Snapshot& snapshot) const {
  const ChunkRow& row = snapshot.chunk(chunk);
  return move_seconds(snapshot.costs(), row.at, to, row.bytes,
                      static_cast<double>(working_.count(snapshot.now())));
}

void Guarded::promise(ChunkId chunk, PlaceId to, double cost) {
  if (pending_.emplace(chunk, Pending{to, cost}).second) pending_cost_ += cost;
}

/// What was passed on before the last tick is on its way by now, or was refused.
void Guarded::drop_refused(const Snapshot& snapshot) {
  std::erase_if(pending_, [&](const auto& each) { return !snapshot.chunk(each.first).moving; });
  pending_cost_ = 0;
  for (const auto& [chunk, pending] : pending_) pending_cost_ += pending.cost;
}

void Guarded::note_lodging(ChunkId chunk, PlaceId from, PlaceId at, const Snapshot& snapshot) {
  guests_.resize(snapshot.places().size());
  guests_[index(from)].erase(chunk);
  if (shadow_.at(chunk, snapshot) != at) guests_[index(at)].insert(chunk);
}

void Guarded::on_result(const MoveResult& result, const Snapshot& snapshot) {
  inner_->on_result(result, snapshot);
  const auto found = pending_.find(result.chunk);
  if (found == pending_.end()) return;  // The planner's own, which `static` would see too.
  const Pending pending = found->second;
  if (result.moved && result.to != pending.to) {  // A detour: its second part follows.
    shadow_.moved_by_policy(result);
    return note_lodging(result.chunk, result.from, result.to, snapshot);
  }
  pending_.erase(found);
  pending_cost_ -= pending.cost;
  if (!result.moved || snapshot.chunk(result.chunk).bytes == 0) return;
  shadow_.moved_by_policy(result);
  // Costs are those of the machine: how long this one took depends on what else was on its way.
  account_.moved(pending.cost);
  chunk_of(result.chunk).saved = 0;
  chunk_of(result.chunk).moved = true;
  note_lodging(result.chunk, result.from, result.to, snapshot);
}

void Guarded::on_gone(ChunkId chunk) {
  inner_->on_gone(chunk);
  shadow_.gone(chunk);
  for (std::set<ChunkId>& guests : guests_) guests.erase(chunk);
  if (index(chunk) < chunks_.size()) chunks_[index(chunk)] = {};
  if (const auto found = pending_.find(chunk); found != pending_.end()) {
    pending_cost_ -= found->second.cost;
    pending_.erase(found);
  }
}

// --- What is passed on

/// Victims come before the move that they make room for, and are passed on with it or not at all.
void Guarded::pass(const Plan& proposals, const Snapshot& snapshot, Plan& plan) {
  for_each_group(proposals,
                 [&](std::span<const Move> group) { pass_group(group, snapshot, plan); });
}

void Guarded::pass_group(std::span<const Move> group, const Snapshot& snapshot, Plan& plan) {
  const bool known = std::ranges::all_of(group, [&](const Move& move) {
    return index(move.chunk) < snapshot.chunks().size() && snapshot.chunk(move.chunk).bytes > 0 &&
           index(move.to) < snapshot.places().size();
  });
  if (known && !account_.affords(pending_cost_)) return;
  for (const Move& move : group) {
    if (move.victim) {
      plan.evict(move.chunk, move.to, move.reason, move.foreseen);
    } else {
      plan.move(move.chunk, move.to, move.value, move.reason, move.keep_copy);
    }
    // If it is not known, the planner says what is wrong with it.
    if (known) promise(move.chunk, move.to, cost(move.chunk, move.to, snapshot));
  }
}

// --- The way back

/// Back to where first touch would have put it, if its uses have lost as much as that costs.
void Guarded::go_back(ChunkId chunk, const Snapshot& snapshot, Plan& plan) {
  const ChunkRow& row = snapshot.chunk(chunk);
  const PlaceId to = shadow_.at(chunk, snapshot);
  if (to == row.at || !may_move(row) || pending_.contains(chunk)) return;
  const double lost = -chunk_of(chunk).saved;
  if (lost <= 0 || !can_lie(snapshot, chunk, to)) return;
  const double price = cost(chunk, to, snapshot);
  if (lost <= price) return;
  Room room(snapshot);
  if (!make_way(chunk, to, snapshot, room, plan)) return;
  plan.move(chunk, to, lost - price,
            "moving does not pay: by first touch it would lie at " + name_of(snapshot, to) +
                ", and its uses have lost " + time_text(lost));
  promise(chunk, to, price);
  chunk_of(chunk).saved = 0;
}

/// Evicts guests of that place that have saved less, to where they would be, until the chunk fits.
bool Guarded::make_way(ChunkId chunk, PlaceId to, const Snapshot& snapshot, Room& room,
                       Plan& plan) {
  const std::uint64_t bytes = snapshot.chunk(chunk).bytes;
  const double lost = -chunk_of(chunk).saved / static_cast<double>(bytes);
  std::vector<std::pair<ChunkId, PlaceId>> guests;
  std::size_t looked_at = 0;
  guests_.resize(snapshot.places().size());
  for (const ChunkId guest : guests_[index(to)]) {
    if (room.holds(to, bytes) || ++looked_at > guests_looked_at) break;
    const ChunkRow& row = snapshot.chunk(guest);
    const PlaceId home = shadow_.at(guest, snapshot);
    if (row.at != to || home == to || !may_move(row) || pending_.contains(guest)) continue;
    if (chunk_of(guest).saved / static_cast<double>(row.bytes) >= lost) continue;
    if (!room.holds(home, row.bytes) || !can_lie(snapshot, guest, home)) continue;
    room.move(to, home, row.bytes);
    guests.emplace_back(guest, home);
  }
  if (!room.holds(to, bytes)) return false;
  for (const auto& [guest, home] : guests) {
    plan.evict(guest, home, "makes room for what first touch would have put there");
    promise(guest, home, cost(guest, home, snapshot));
  }
  return true;
}

// --- Entry points

void Guarded::on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                       std::span<PlaceId> chunks) {
  std::vector<PlaceId> proposed(chunks.begin(), chunks.end());
  inner_->on_alloc(request, snapshot, proposed);
  if (placing_.follows()) {
    std::ranges::copy(proposed, chunks.begin());
  } else {
    first_touch(request, snapshot, chunks);
  }
  shadow_.asked(request, chunks, snapshot);
}

void Guarded::on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) {
  if (use.hint == nullptr) book(use, snapshot);
  Plan proposals;
  inner_->on_use(use, snapshot, proposals);
  if (!proposals.empty()) pass(proposals, snapshot, plan);
  const bool pays = (chunk_of(use.chunk).moved ? account_ : placing_).follows();
  if (!pays && use.hint == nullptr) go_back(use.chunk, snapshot, plan);
}

/// Room is made in any case, under `static` by the planner.
void Guarded::on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) {
  Plan proposals;
  inner_->on_pressure(pressure, snapshot, proposals);
  if (!account_.follows()) return;
  for (const Move& move : proposals.moves())
    plan.evict(move.chunk, move.to, move.reason, move.foreseen);
  if (proposals.declines()) plan.decline();
}

void Guarded::on_tick(const Snapshot& snapshot, Plan& plan) {
  drop_refused(snapshot);
  shadow_.end_tick(snapshot);
  account_.judge(snapshot.now());
  placing_.judge(snapshot.now());
  Plan proposals;
  inner_->on_tick(snapshot, proposals);
  pass(proposals, snapshot, plan);
}

std::unique_ptr<Policy> make_guarded(std::unique_ptr<Policy> inner, const PolicyValues& values) {
  if (inner == nullptr) return nullptr;
  return std::make_unique<Guarded>(std::move(inner), values);
}

}  // namespace

std::vector<PolicyParameter> guard_parameters() {
  using Type = PolicyParameter::Type;
  return {{"guard_start", Type::duration, 0.25, 0, 3600,
           "how much more time than first touch takes moves, and places of new memory, may cost at "
           "first, each as much; no more than 5 % of the time of all uses of a GPU so far"},
          {"guard_allowance", Type::number, 0.01, 0, 1,
           "fraction of the time of all uses of a GPU that moves may cost in addition, in the long "
           "run"},
          {"guard_half_life", Type::duration, 10, 0.001, 3600,
           "decay of what earlier moves have saved"},
          {"guard_back_off", Type::duration, 2, 0.001, 600,
           "how long moves stop at first when they do not pay; doubles each time"},
          {"guard_limit", Type::number, 0.7, 0, 1,
           "load of a path from which on all of a saving counts; 0: it always counts"}};
}

PolicyKind guarded_kind(PolicyKind inner) {
  PolicyKind kind;
  kind.name = "guarded+" + inner.name;
  kind.source = "set dueling, ISCA 2007; around " + inner.name;
  kind.parameters = inner.parameters;
  for (PolicyParameter& parameter : guard_parameters()) {
    if (std::ranges::find(inner.parameters, parameter.name, &PolicyParameter::name) !=
        inner.parameters.end()) {
      throw Error(ErrorKind::invalid_argument, "policy",
                  inner.name + " cannot be guarded: it has a parameter " + parameter.name);
    }
    kind.parameters.push_back(std::move(parameter));
  }
  kind.make = [make = std::move(inner.make)](const PolicyValues& values) {
    return make_guarded(make(values), values);
  };
  return kind;
}

PolicyKind auto_kind() {
  PolicyKind inner = cost_benefit_kind();
  std::ranges::find(inner.parameters, "limit", &PolicyParameter::name)->otherwise = 0.7;
  PolicyKind kind = guarded_kind(repeating_kind(std::move(inner)));
  kind.name = "auto";
  return kind;
}

}  // namespace vma::inline v1
