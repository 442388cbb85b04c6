#include "placement/auto/auto.hpp"

#include "base/units.hpp"
#include "placement/auto/repeated_lives.hpp"
#include "placement/auto/use_rhythm.hpp"
#include "placement/weighing/chunk_worth.hpp"
#include "placement/auto/plan_groups.hpp"
#include "placement/weighing/room_for_chunks.hpp"

#include <vma/error.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace vma::inline v1 {
namespace {

constexpr std::size_t looked_at_max = 1024;       // Predicted uses, in each tick.
constexpr std::size_t unknown_max = 64;           // Chunks that wait for others, in each tick.
constexpr std::size_t prefetch_victims_max = 64;  // For one prefetch.
constexpr std::size_t searches_max = 64;          // For victims, in each tick.

/// One owner: what was learned of repeated lives, and the costs by which a prefetch pays.
class Repeating : public Policy {
 public:
  Repeating(std::unique_ptr<Policy> inner, const PolicyValues& values)
      : inner_(std::move(inner)),
        margin_(values["repeat_margin"]),
        apart_(values.duration("repeat_apart")),
        budget_(values["repeat_share"], 1),
        lives_(apart_),
        rhythm_(apart_) {}

  void on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                std::span<PlaceId> chunks) override;
  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override;
  void on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) override;
  void on_tick(const Snapshot& snapshot, Plan& plan) override;
  void on_result(const MoveResult& result, const Snapshot& snapshot) override {
    inner_->on_result(result, snapshot);
  }
  void on_gone(ChunkId chunk) override;
  void prepare(ChunkId chunk) const override {
    rhythm_.prepare(chunk);
    inner_->prepare(chunk);
  }

 private:
  struct Victim {
    ChunkId chunk{};
    PlaceId to{};
    Time next{0};
  };
  /// What is decided in one tick.
  struct Round {
    Room room;
    std::set<ChunkId> planned;
    std::vector<bool> full;  // By GPU: no chunk there is used later than the next prefetch.
    std::size_t searches = 0;
  };

  void place_far(const AllocRequest& request, const Snapshot& snapshot,
                 std::span<PlaceId> chunks) const;
  std::uint16_t pays_below(const NextUse& use, const ChunkRow& row,
                           const MachineCosts& costs) const;
  void note_costs(const Snapshot& snapshot);
  void predict(ChunkId chunk, const Snapshot& snapshot);
  void predict_unknown(const Snapshot& snapshot);
  void drop_overdue(const Snapshot& snapshot);
  bool decides(ChunkId chunk) const;
  bool forbids(const Move& move) const;
  /// Its next use may be the rest of this one.
  bool in_use(const ChunkRow& row, Time now) const {
    return row.last_use > Time::zero() && now - row.last_use < apart_;
  }
  void pass(const Plan& proposals, Plan& plan) const;
  void prefetch_all(const Snapshot& snapshot, Plan& plan);
  void prefetch(ChunkId chunk, const NextUse& use, const Snapshot& snapshot, Round& round,
                Plan& plan);
  bool find_victims(ChunkId chunk, const NextUse& use, const Snapshot& snapshot, Round& round,
                    std::vector<Victim>& victims) const;

  const std::unique_ptr<Policy> inner_;
  const double margin_;
  const Time apart_;
  RouteBudget budget_;
  RepeatedLives lives_;
  UseRhythm rhythm_;
  UseCalendar calendar_;
  std::vector<bool> of_life_;  // By chunk: its prediction comes from `lives_`.
  std::set<ChunkId> unknown_;  // Used, and not predicted so far.
  ChunkId last_unknown_{};
  WorkingGpus working_;
  std::optional<MachineCosts> costs_;  // By which prefetches pay.
  Time now_{0};
};

// --- Predictions

/// The smallest number of working GPUs, which all stand during the stalls of a prefetch, with which
/// these cost too much. Each tick asks for thousands of uses, and this changes with few of them.
std::uint16_t Repeating::pays_below(const NextUse& use, const ChunkRow& row,
                                    const MachineCosts& costs) const {
  const double saved = saved_seconds(costs, use.device, row.at, use.device,
                                     use.passes * static_cast<double>(row.bytes));
  const double stall = in_seconds(costs.stall_time(row.at, use.device, row.bytes));
  std::uint16_t working = 0;
  while (working <= costs.gpus() && !(saved < margin_ * (static_cast<double>(working) * stall)))
    ++working;
  return working;
}

/// If the costs have changed, what pays has, too.
void Repeating::note_costs(const Snapshot& snapshot) {
  if (costs_ == snapshot.costs()) return;
  costs_ = snapshot.costs();
  std::vector<ChunkId> known;
  calendar_.nearest([&](ChunkId chunk, const NextUse&) {
    known.push_back(chunk);
    return true;
  });
  for (const ChunkId chunk : known) {
    const UseCalendar::Entry entry = calendar_[chunk];
    const std::uint16_t below = pays_below(entry.use, snapshot.chunk(chunk), *costs_);
    calendar_.put(chunk, entry.use, entry.asked, entry.at, below);
  }
}

void Repeating::predict(ChunkId chunk, const Snapshot& snapshot) {
  const ChunkRow& row = snapshot.chunk(chunk);
  if (row.bytes == 0 || row.dropped) return calendar_.drop(chunk);
  if (index(chunk) >= of_life_.size()) of_life_.resize(index(chunk) + 1);
  std::optional<NextUse> next = lives_.next(chunk, snapshot);
  of_life_[index(chunk)] = next.has_value();
  if (!next) next = rhythm_.next(chunk);
  if (next) {
    calendar_.put(chunk, *next, snapshot.now(), row.at, pays_below(*next, row, snapshot.costs()));
  } else {
    calendar_.drop(chunk);
  }
  if (!next && rhythm_.follows_others(chunk)) {
    unknown_.insert(chunk);
  } else {
    unknown_.erase(chunk);
  }
}

/// Others may tell by now when these are used. Some of them, in turn.
void Repeating::predict_unknown(const Snapshot& snapshot) {
  std::vector<ChunkId> due;
  auto next = unknown_.lower_bound(last_unknown_);
  for (; due.size() < unknown_max && next != unknown_.end(); ++next) due.push_back(*next);
  last_unknown_ = next == unknown_.end() ? ChunkId{} : *next;
  for (const ChunkId chunk : due) predict(chunk, snapshot);
}

/// Uses that have not come.
void Repeating::drop_overdue(const Snapshot& snapshot) {
  std::vector<ChunkId> overdue;
  std::size_t looked_at = 0;
  calendar_.nearest([&](ChunkId chunk, const NextUse& use) {
    const Time patience = rhythm_.patience(use.at - calendar_[chunk].asked);
    if (use.at + patience < snapshot.now()) overdue.push_back(chunk);
    return use.at < snapshot.now() && ++looked_at < looked_at_max;
  });
  for (const ChunkId chunk : overdue) {
    calendar_.drop(chunk);
    if (!of_life_[index(chunk)]) rhythm_.missed(chunk);
  }
}

/// Whether it is predicted and predictions come true, so that the other policy has no say.
bool Repeating::decides(ChunkId chunk) const {
  if (!calendar_.has(chunk)) return false;
  return of_life_[index(chunk)] ? lives_.trusted() : rhythm_.trusted();
}

/// What is predicted stays where it is, unless it goes to its next user, or lies away from it and
/// makes room. One use may not be worth a prefetch where those that follow are: of that, the other
/// policy knows more.
bool Repeating::forbids(const Move& move) const {
  if (!decides(move.chunk)) return false;
  const UseCalendar::Entry& next = calendar_[move.chunk];
  return move.victim ? next.at == next.use.device : move.to != next.use.device;
}

/// Passes on what the other policy proposes and predictions do not forbid.
void Repeating::pass(const Plan& proposals, Plan& plan) const {
  for_each_group(proposals, [&](std::span<const Move> group) {
    const bool mine = std::ranges::any_of(group, [&](const Move& move) { return forbids(move); });
    if (mine) return;
    for (const Move& move : group) {
      if (move.victim) {
        plan.evict(move.chunk, move.to, move.reason, move.foreseen);
      } else {
        plan.move(move.chunk, move.to, move.value, move.reason, move.keep_copy);
      }
    }
  });
}

// --- Prefetches

/// Chunks at the user's GPU that are used later, the furthest first, until there is room for the
/// chunk and for all that is requested before it is used.
bool Repeating::find_victims(ChunkId chunk, const NextUse& use, const Snapshot& snapshot,
                             Round& round, std::vector<Victim>& victims) const {
  Room room = round.room;
  const std::uint64_t bytes = snapshot.chunk(chunk).bytes;
  ++round.searches;
  // What is requested before is used before, and may lie anywhere near the GPU.
  const std::uint64_t needed =
      lives_.trusted() ? lives_.needed_near(use.device, use.at, snapshot) : 0;
  const auto near = snapshot.costs()
                        .by_speed(use.device)
                        .first(RepeatedLives::near_places(use.device, snapshot.costs()));
  const auto suffices = [&] {
    std::uint64_t free = 0;
    for (const PlaceId place : near) free += room.at(place);
    return room.holds(use.device, bytes) && free >= bytes + needed;
  };
  std::size_t looked_at = 0;
  calendar_.furthest(use.device, [&](ChunkId victim, const NextUse& next) {
    if (suffices() || ++looked_at > prefetch_victims_max) return false;
    if (next.at <= use.at) return false;
    const ChunkRow& row = snapshot.chunk(victim);
    if (row.at != use.device || !may_move(row) || !decides(victim)) return true;
    if (round.planned.contains(victim) || in_use(row, snapshot.now())) return true;
    const std::optional<PlaceId> to = next_place(snapshot, victim, room);
    if (!to || !budget_.left(row.at, *to)) return true;
    room.move(row.at, *to, row.bytes);
    victims.push_back({victim, *to, next.at});
    return true;
  });
  if (!suffices()) {
    round.full[index(use.device)] = true;
    return false;
  }
  return true;
}

/// Requires: without victims, it pays.
void Repeating::prefetch(ChunkId chunk, const NextUse& use, const Snapshot& snapshot, Round& round,
                         Plan& plan) {
  const ChunkRow& row = snapshot.chunk(chunk);
  const MachineCosts& costs = snapshot.costs();
  // Many are looked at in each tick: what is quickly known comes first.
  if (row.at == use.device || !may_move(row) || !budget_.left(row.at, use.device)) return;
  if (use.at - snapshot.now() < costs.move_time(row.at, use.device, row.bytes)) return;
  if (!decides(chunk) || round.planned.contains(chunk)) return;
  const double saved = saved_seconds(costs, use.device, row.at, use.device,
                                     use.passes * static_cast<double>(row.bytes));
  const double working = static_cast<double>(working_.count(snapshot.now()));
  double stalls = working * in_seconds(costs.stall_time(row.at, use.device, row.bytes));
  if (!can_lie(snapshot, chunk, use.device)) return;
  std::vector<Victim> victims;
  if (!find_victims(chunk, use, snapshot, round, victims)) return;
  for (const Victim& victim : victims) {
    stalls += working * in_seconds(costs.stall_time(use.device, victim.to,
                                                    snapshot.chunk(victim.chunk).bytes));
  }
  if (saved < margin_ * stalls) return;
  for (const Victim& victim : victims) {
    const std::uint64_t bytes = snapshot.chunk(victim.chunk).bytes;
    round.room.move(use.device, victim.to, bytes);
    budget_.take(use.device, victim.to, bytes);
    round.planned.insert(victim.chunk);
    plan.evict(
        victim.chunk, victim.to,
        "its next use is furthest, in " + time_text(in_seconds(victim.next - snapshot.now())),
        true);
  }
  round.room.move(row.at, use.device, row.bytes);
  budget_.take(row.at, use.device, row.bytes);
  round.planned.insert(chunk);
  plan.move(chunk, use.device, saved - stalls,
            "as before, " + name_of(snapshot, use.device) + " will use it in " +
                time_text(in_seconds(use.at - snapshot.now())) + " and save " + time_text(saved));
}

void Repeating::prefetch_all(const Snapshot& snapshot, Plan& plan) {
  if (!lives_.trusted() && !rhythm_.trusted()) return;
  budget_.refill(snapshot.costs(), snapshot.now());
  Round round{Room(snapshot), {}, std::vector<bool>(snapshot.costs().gpus()), 0};
  const std::size_t working = working_.count(snapshot.now());
  calendar_.nearest_paying(looked_at_max, working, [&](ChunkId chunk, const NextUse& use) {
    if (!round.full[index(use.device)]) prefetch(chunk, use, snapshot, round, plan);
    return round.searches < searches_max &&
           std::ranges::find(round.full, false) != round.full.end();
  });
}

// --- Entry points

void Repeating::on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                         std::span<PlaceId> chunks) {
  now_ = snapshot.now();
  inner_->on_alloc(request, snapshot, chunks);
  lives_.asked(request, snapshot);
  if (lives_.trusted()) place_far(request, snapshot, chunks);
  lives_.placed(request, chunks, snapshot);
}

/// What of the request does not belong near its GPU.
void Repeating::place_far(const AllocRequest& request, const Snapshot& snapshot,
                          std::span<PlaceId> chunks) const {
  std::optional<std::uint64_t> near = lives_.room_near(snapshot);
  if (!near) return;
  RoomForChunks room(snapshot);
  const auto far = snapshot.costs()
                       .by_speed(request.device)
                       .subspan(RepeatedLives::near_places(request.device, snapshot.costs()));
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const std::uint64_t bytes = chunk_bytes_of(request, i);
    if (bytes <= *near) {
      *near -= bytes;
    } else if (const auto at = room.take_first(far, bytes)) {
      chunks[i] = *at;
    }
  }
}

void Repeating::on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) {
  now_ = snapshot.now();
  if (use.hint == nullptr && snapshot.chunk(use.chunk).bytes > 0) {
    working_.note(use.device, snapshot.now());
    bool begun = lives_.used(use, snapshot);
    if (!lives_.repeats(use.chunk, snapshot)) begun = rhythm_.used(use, snapshot) || begun;
    if (begun) predict(use.chunk, snapshot);
  }
  Plan proposals;
  inner_->on_use(use, snapshot, proposals);
  pass(proposals, plan);
}

void Repeating::on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) {
  now_ = snapshot.now();
  Room room(snapshot);
  std::uint64_t freed = 0;
  std::set<ChunkId> planned;
  if (!pressure.elsewhere && (lives_.trusted() || rhythm_.trusted())) {
    std::size_t looked_at = 0;
    calendar_.furthest(pressure.at, [&](ChunkId chunk, const NextUse& use) {
      if (freed >= pressure.bytes || ++looked_at > looked_at_max) return false;
      const ChunkRow& row = snapshot.chunk(chunk);
      if (row.at != pressure.at || !may_move(row) || !decides(chunk)) return true;
      if (in_use(row, snapshot.now())) return true;
      const std::optional<PlaceId> to = next_place(snapshot, chunk, room);
      if (!to) return true;
      room.move(row.at, *to, row.bytes);
      freed += row.bytes;
      planned.insert(chunk);
      plan.evict(chunk, *to,
                 "its next use is furthest, in " + time_text(in_seconds(use.at - snapshot.now())),
                 true);
      return true;
    });
  }
  if (freed >= pressure.bytes) return;
  Pressure rest = pressure;
  rest.bytes -= freed;
  Plan proposals;
  inner_->on_pressure(rest, snapshot, proposals);
  for (const Move& move : proposals.moves()) {
    if (!planned.contains(move.chunk)) plan.evict(move.chunk, move.to, move.reason, move.foreseen);
  }
  if (proposals.declines()) plan.decline();
}

void Repeating::on_tick(const Snapshot& snapshot, Plan& plan) {
  now_ = snapshot.now();
  note_costs(snapshot);
  lives_.end_tick(snapshot);
  for_each_ahead(
      snapshot, snapshot.changed(),
      [&](ChunkId chunk) {
        rhythm_.prepare(chunk);
        calendar_.prepare(chunk);
      },
      [](ChunkId) {}, [&](ChunkId chunk) { predict(chunk, snapshot); });
  predict_unknown(snapshot);
  drop_overdue(snapshot);
  prefetch_all(snapshot, plan);
  Plan proposals;
  inner_->on_tick(snapshot, proposals);
  pass(proposals, plan);
}

void Repeating::on_gone(ChunkId chunk) {
  inner_->on_gone(chunk);
  calendar_.drop(chunk);
  unknown_.erase(chunk);
  lives_.gone(chunk, now_);
  rhythm_.gone(chunk);
}

std::vector<PolicyParameter> repeating_parameters() {
  using Type = PolicyParameter::Type;
  return {{"repeat_margin", Type::number, 1.25, 1, 100,
           "how many times its stalls a prefetch must save"},
          {"repeat_share", Type::number, 0.5, 0.01, 1,
           "fraction of a route's copy rate that prefetches may use"},
          {"repeat_apart", Type::duration, 0.03, 0.001, 60,
           "uses of a chunk that follow each other more closely are one"}};
}

}  // namespace

PolicyKind repeating_kind(PolicyKind inner) {
  PolicyKind kind;
  kind.name = "repeating+" + inner.name;
  kind.source = "Cao et al., SIGMETRICS 1995; Capuchin, ASPLOS 2020; around " + inner.name;
  kind.parameters = inner.parameters;
  for (PolicyParameter& parameter : repeating_parameters()) {
    if (std::ranges::find(inner.parameters, parameter.name, &PolicyParameter::name) !=
        inner.parameters.end()) {
      throw Error(ErrorKind::invalid_argument, "policy",
                  inner.name + " cannot be repeating: it has a parameter " + parameter.name);
    }
    kind.parameters.push_back(std::move(parameter));
  }
  kind.make = [make =
                   std::move(inner.make)](const PolicyValues& values) -> std::unique_ptr<Policy> {
    std::unique_ptr<Policy> inner = make(values);
    if (inner == nullptr) return nullptr;
    return std::make_unique<Repeating>(std::move(inner), values);
  };
  return kind;
}

}  // namespace vma::inline v1
