#include "placement/auto/auto.hpp"

#include "base/printable.hpp"
#include "base/units.hpp"
#include "placement/auto/victim_search.hpp"
#include "placement/auto/outlook.hpp"
#include "placement/weighing/chunk_worth.hpp"
#include "placement/auto/path_limits.hpp"
#include "placement/weighing/room_for_chunks.hpp"
#include "placement/auto/shift_watch.hpp"
#include "placement/auto/use_endings.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <utility>

namespace vma::inline v1 {
namespace {

constexpr std::size_t victims_looked_at_max = 64;  // For one promoted chunk.
constexpr std::size_t passed_over_max = 1024;      // In addition, of those that may not move.
constexpr std::size_t granted_max = 4096;          // Per tick, the best ones.
constexpr double gain_most = 1e6;      // Seconds: for chunks that a user cannot reach now.
constexpr double again_by_use = 1.5;   // Growth of a chunk's demand at which a use is considered.
constexpr int settled_half_lives = 4;  // By then, a sixteenth of an average is of before.

/// Parameters, under the names that they have in `cost_benefit_kind`.
struct Weights {
  double horizon, margin, colder, stall_weight, half_life;
  explicit Weights(const PolicyValues& values)
      : horizon(values["horizon"]),
        margin(values["margin"]),
        colder(values["colder"]),
        stall_weight(values["stall_weight"]),
        half_life(values["half_life"]) {}
};

/// A place where a chunk would save time.
struct Goal {
  ChunkId chunk{};
  PlaceId to{};
  double gain = 0;  // Seconds within the horizon, before any cost.
  double gain_per_byte = 0;
  bool shifted = false;  // By its use since the shift, not by averages.
};

/// A chunk that would save time elsewhere.
struct Wanted {
  std::size_t first = 0, count = 0;  // Of its goals, the best first.
  // What was expected of it, for reasons.
  double demand = 0, main_share = 0;
  PlaceId main_user{};
};
struct Victim {
  ChunkId chunk{};
  PlaceId to{};
  std::uint64_t bytes = 0;
};

/// One owner: one decision weighs all of it together, and reuses the buffers of the last one.
class CostBenefit : public Policy {
 public:
  explicit CostBenefit(const PolicyValues& values)
      : weights_(values),
        budget_(values["route_share"], 1),
        shifts_({values.duration("shift"), values.duration("horizon"),
                 settled_half_lives * values.duration("half_life"), weights_.margin}),
        endings_(values.duration("shift"), weights_.half_life),
        limits_(values["limit"]),
        losses_(shifts_, endings_, weights_.horizon),
        prices_(weights_.stall_weight) {
    for (Outlook* const outlook : {&outlook_, &victim_outlook_}) {
      outlook->limit_by(limits_);
      outlook->end_by(endings_);
    }
  }

  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override;
  void on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) override;
  void on_tick(const Snapshot& snapshot, Plan& plan) override;
  void on_result(const MoveResult& result, const Snapshot& snapshot) override;
  void on_gone(ChunkId chunk) override;
  void prepare(ChunkId chunk) const override {
    prepare_cell(looked_, chunk);
    shifts_.prepare(chunk);
  }

 private:
  void look_over_all(const Snapshot& snapshot);
  void read(const Snapshot& snapshot, ChunkId chunk, Outlook& outlook,
            const Hint* hint = nullptr) const;
  /// `outlook_` is its, from then on.
  void place_in_order(const Snapshot& snapshot, ChunkId chunk);
  Wanted find_goals(const Snapshot& snapshot, ChunkId chunk, const Outlook& outlook);
  void collect(const Snapshot& snapshot, ChunkId chunk);
  void look_at(const Snapshot& snapshot, ChunkId chunk);
  void grant(const Snapshot& snapshot, const Wanted& wanted, Room& room, Plan& plan);
  void begin_granting(const Snapshot& snapshot);
  void grant_best(const Snapshot& snapshot, Plan& plan);
  bool hopeless(const Snapshot& snapshot, const Goal& proposal, const Room& room) const;
  double loss_per_byte(const Snapshot& snapshot, ChunkId chunk, PlaceId to);
  double half_lives(const Snapshot& snapshot) const {
    return in_seconds(snapshot.now()) / weights_.half_life;
  }
  bool try_proposal(const Snapshot& snapshot, const Wanted& wanted, const Goal& proposal,
                    Room& room, Plan& plan);
  bool find_victims(const Snapshot& snapshot, const Goal& proposal, Room& room, double& loss);
  void write(const Snapshot& snapshot, const Wanted& wanted, const Goal& proposal, double value,
             Room& room, Plan& plan);

  const Weights weights_;
  RouteBudget budget_;
  ValueOrder order_;           // Of chunks that have a slower place to go to.
  std::vector<float> looked_;  // Demand of a chunk when one of its uses was last considered.
  AnnouncedUses announced_;    // Beyond the horizon, until they enter it.
  bool looked_over_ = false;
  ShiftWatch shifts_;
  UseEndings endings_;
  PathLimits limits_;
  VictimLosses losses_;
  MovePrices prices_;

  // State of one call.
  Outlook outlook_, victim_outlook_;
  std::vector<Goal> goals_;
  std::vector<Wanted> wanted_;
  std::vector<Victim> victims_;
  std::vector<ChunkId> ended_;
  std::set<ChunkId> planned_;
  // By place: bytes for which no victims were found there. Fewer bytes may still succeed.
  std::vector<std::uint64_t> too_hot_;
};

// --- Order of what is there

void CostBenefit::place_in_order(const Snapshot& snapshot, ChunkId chunk) {
  read(snapshot, chunk, outlook_);
  const ChunkRow& row = snapshot.chunk(chunk);
  const std::optional<PlaceId> next =
      row.bytes > 0 && !row.dropped ? outlook_.slower_place() : std::nullopt;
  if (!next) {
    order_.drop(chunk);
    return;
  }
  // Where no path is the limit, the coldest are still the first to go.
  const double worth = outlook_.all_seconds_at(*next) - outlook_.all_seconds_at(row.at);
  const double key = worth > 0
                         ? std::log2(worth / static_cast<double>(row.bytes)) + half_lives(snapshot)
                         : ValueOrder::worthless;
  order_.put(chunk, row.at, key, row.bytes);
  if (const std::optional<Time> end = endings_.end_of(chunk, outlook_.demand(), snapshot);
      end && *end > snapshot.now()) {
    endings_.watch(chunk, *end, snapshot.now());
  }
}

/// Chunks that existed before the policy are in no list of changes.
void CostBenefit::look_over_all(const Snapshot& snapshot) {
  looked_over_ = true;
  for (std::size_t i = 0; i < snapshot.chunks().size(); ++i) {
    const ChunkId chunk{static_cast<std::uint32_t>(i)};
    if (snapshot.chunk(chunk).bytes > 0) place_in_order(snapshot, chunk);
  }
}

/// What the averages expect, without the use from before a shift that was followed.
void CostBenefit::read(const Snapshot& snapshot, ChunkId chunk, Outlook& outlook,
                       const Hint* hint) const {
  outlook.read(snapshot, chunk, weights_.horizon, hint);
  if (!outlook.announced()) shifts_.correct(chunk, snapshot, false, outlook);
}

void CostBenefit::on_result(const MoveResult& result, const Snapshot& snapshot) {
  shifts_.moved(result, snapshot.now());
}

void CostBenefit::on_gone(ChunkId chunk) {
  shifts_.gone(chunk);
  order_.drop(chunk);
  announced_.forget(chunk);
  endings_.forget(chunk);
  if (index(chunk) < looked_.size()) looked_[index(chunk)] = 0;
}

// --- Proposals

/// Adds the places where the chunk's users would wait less to `goals_`, the best first.
Wanted CostBenefit::find_goals(const Snapshot& snapshot, ChunkId chunk, const Outlook& outlook) {
  const auto begin = static_cast<std::ptrdiff_t>(goals_.size());
  const ChunkRow& row = snapshot.chunk(chunk);
  const Outlook::Seconds here = outlook.seconds_at(row.at);
  if (here.held_up <= 0) return {};
  // No move gains more than this.
  const double most = std::min({here.held_up, here.all, gain_most});
  for (std::size_t i = 0; i < snapshot.places().size(); ++i) {
    const PlaceId to{static_cast<std::uint8_t>(i)};
    if (to == row.at) continue;
    const double cost = prices_.seconds(snapshot.costs(), row.at, to, row.bytes);
    if (most <= weights_.margin * cost) continue;
    const Outlook::Seconds there = outlook.seconds_at(to);
    if (there.held_up * weights_.margin >= here.held_up) continue;
    if (there.all * weights_.margin >= here.all || !can_lie(snapshot, chunk, to)) continue;
    const double gain = std::min({here.held_up - there.held_up, here.all - there.all, gain_most});
    if (gain <= weights_.margin * cost) continue;
    const auto before = std::ranges::upper_bound(goals_.begin() + begin, goals_.end(), gain,
                                                 std::greater<>(), &Goal::gain);
    goals_.insert(before, {chunk, to, gain, gain / static_cast<double>(row.bytes)});
  }
  const auto first = static_cast<std::size_t>(begin);
  return {first, goals_.size() - first, outlook.demand(), outlook.main_share(),
          outlook.main_user()};
}

void CostBenefit::collect(const Snapshot& snapshot, ChunkId chunk) {
  const ChunkRow& row = snapshot.chunk(chunk);
  if (outlook_.idle() || !may_move(row)) return;
  const UseShifts::Shift* shift = outlook_.announced() ? nullptr : shifts_.due(chunk, snapshot);
  const bool at_home = row.at == outlook_.main_user() && outlook_.main_share() > 0.5;
  if (at_home && shift == nullptr) return;  // The usual case.
  Wanted wanted;
  if (outlook_.announced() || !shifts_.alternates(chunk, snapshot.now()))
    wanted = find_goals(snapshot, chunk, outlook_);
  if (shift != nullptr) {
    outlook_.read_shift(snapshot, *shift, shifts_.expected(*shift));
    const Wanted shifted = find_goals(snapshot, chunk, outlook_);
    // Averages expect more, for longer: where both agree, they decide.
    if (shifted.count > 0 &&
        (wanted.count == 0 || goals_[wanted.first].to != goals_[shifted.first].to)) {
      wanted = shifted;
      for (std::size_t i = 0; i < wanted.count; ++i) goals_[wanted.first + i].shifted = true;
    }
  }
  if (wanted.count > 0) wanted_.push_back(wanted);
}

/// Puts enough victims for `proposal` into `victims_`, and their losses and move costs into `loss`.
bool CostBenefit::find_victims(const Snapshot& snapshot, const Goal& proposal, Room& room,
                               double& loss) {
  victims_.clear();
  loss = 0;
  std::uint64_t free = room.at(proposal.to);
  const std::uint64_t wanted = snapshot.chunk(proposal.chunk).bytes;
  Room trial = room;
  std::size_t looked_at = 0, passed_over = 0;
  for (std::uint32_t number = order_.first(proposal.to);
       free < wanted && number != ChunkRow::none && looked_at < victims_looked_at_max;
       number = order_.next(number)) {
    const ChunkId chunk{number};
    const ChunkRow& row = snapshot.chunk(chunk);
    // Pinned chunks and those without streams are often the coldest: they do not count as examined.
    if (!may_move(row)) {
      if (++passed_over > passed_over_max) break;
      continue;
    }
    ++looked_at;
    if (row.at != proposal.to || chunk == proposal.chunk) continue;
    if (planned_.contains(chunk) || (proposal.shifted && !shifts_.makes_way(chunk, snapshot)))
      continue;
    const VictimLosses::Way* way = losses_.next(snapshot, chunk, trial);
    if (way == nullptr || !budget_.left(row.at, way->to)) continue;
    if (way->lost / static_cast<double>(row.bytes) * weights_.colder > proposal.gain_per_byte)
      continue;
    loss +=
        way->lost + weights_.margin * prices_.seconds(snapshot.costs(), row.at, way->to, row.bytes);
    victims_.push_back({chunk, way->to, row.bytes});
    trial.move(row.at, way->to, row.bytes);
    free += row.bytes;
  }
  return free >= wanted;
}

bool CostBenefit::try_proposal(const Snapshot& snapshot, const Wanted& wanted, const Goal& proposal,
                               Room& room, Plan& plan) {
  const ChunkRow& row = snapshot.chunk(proposal.chunk);
  const double cost = prices_.seconds(snapshot.costs(), row.at, proposal.to, row.bytes);
  double loss = 0;
  if (!budget_.left(row.at, proposal.to)) return false;
  std::uint64_t& too_hot = too_hot_[index(proposal.to)];
  if (row.bytes >= too_hot && !room.holds(proposal.to, row.bytes)) return false;
  if (!find_victims(snapshot, proposal, room, loss)) {
    too_hot = row.bytes;  // Later proposals in this call are worth less.
    return false;
  }
  if (proposal.gain - loss <= weights_.margin * cost) return false;
  write(snapshot, wanted, proposal, proposal.gain - loss - cost, room, plan);
  if (proposal.shifted) shifts_.propose(*shifts_.lasting(proposal.chunk), proposal.to, loss + cost);
  return true;
}

void CostBenefit::write(const Snapshot& snapshot, const Wanted& wanted, const Goal& proposal,
                        double value, Room& room, Plan& plan) {
  const ChunkRow& row = snapshot.chunk(proposal.chunk);
  const std::string there = name_of(snapshot, proposal.to);
  for (const Victim& victim : victims_) {
    room.move(proposal.to, victim.to, victim.bytes);
    budget_.take(proposal.to, victim.to, victim.bytes);
    planned_.insert(victim.chunk);
    plan.evict(victim.chunk, victim.to,
               "least worth at " + there + ", which takes in what saves " +
                   time_text(proposal.gain) + " within " + time_text(weights_.horizon));
  }
  room.move(row.at, proposal.to, row.bytes);
  budget_.take(row.at, proposal.to, row.bytes);
  planned_.insert(proposal.chunk);
  const int percent = static_cast<int>(std::lround(100 * wanted.main_share));
  const UseShifts::Shift* shift = proposal.shifted ? shifts_.lasting(proposal.chunk) : nullptr;
  const double within = shift == nullptr ? weights_.horizon : in_seconds(shifts_.expected(*shift));
  plan.move(
      proposal.chunk, proposal.to, value,
      (shift == nullptr ? ""
                        : "its use shifted " + time_text(in_seconds(shift->length())) + " ago: ") +
          ("asked for " + rate_text(wanted.demand)) + ", " + std::to_string(percent) +
          " % of what is expected is of " + name_of(snapshot, wanted.main_user) + "; at " + there +
          " it saves " + time_text(proposal.gain) + " within " + time_text(within));
}

void CostBenefit::grant(const Snapshot& snapshot, const Wanted& wanted, Room& room, Plan& plan) {
  const ChunkId chunk = goals_[wanted.first].chunk;
  if (planned_.contains(chunk) || !may_move(snapshot.chunk(chunk))) return;
  for (const Goal& proposal : std::span(goals_).subspan(wanted.first, wanted.count))
    if (try_proposal(snapshot, wanted, proposal, room, plan)) return;
}

/// Neither its place nor any other GPU has room for it, and nothing there is colder.
bool CostBenefit::hopeless(const Snapshot& snapshot, const Goal& proposal, const Room& room) const {
  const std::uint64_t bytes = snapshot.chunk(proposal.chunk).bytes;
  if (bytes < too_hot_[index(proposal.to)]) return false;
  for (std::size_t i = 0; i < snapshot.costs().gpus(); ++i) {
    if (room.holds(PlaceId{static_cast<std::uint8_t>(i)}, bytes)) return false;
  }
  return true;
}

void CostBenefit::begin_granting(const Snapshot& snapshot) {
  losses_.begin();
  planned_.clear();
  too_hot_.assign(snapshot.places().size(), UINT64_MAX);
}

void CostBenefit::grant_best(const Snapshot& snapshot, Plan& plan) {
  if (wanted_.empty()) return;  // Most ticks end here.
  budget_.refill(snapshot.costs(), snapshot.now());
  std::ranges::sort(wanted_, [&](const Wanted& one, const Wanted& other) {
    const Goal &left = goals_[one.first], &right = goals_[other.first];
    if (left.gain_per_byte != right.gain_per_byte) return left.gain_per_byte > right.gain_per_byte;
    return left.chunk < right.chunk;
  });
  begin_granting(snapshot);
  Room room(snapshot);
  std::size_t granted = 0;
  for (const Wanted& wanted : wanted_) {
    if (hopeless(snapshot, goals_[wanted.first], room)) continue;
    if (++granted > granted_max) break;
    grant(snapshot, wanted, room, plan);
  }
}

// --- Entry points

void CostBenefit::look_at(const Snapshot& snapshot, ChunkId chunk) {
  place_in_order(snapshot, chunk);
  const auto demand = static_cast<float>(outlook_.demand());
  if (index(chunk) < looked_.size() && looked_[index(chunk)] > demand)
    looked_[index(chunk)] = demand;
  collect(snapshot, chunk);
}

void CostBenefit::on_tick(const Snapshot& snapshot, Plan& plan) {
  if (!looked_over_) look_over_all(snapshot);
  prices_.begin(snapshot.costs());
  goals_.clear();
  wanted_.clear();
  for_each_ahead(
      snapshot, snapshot.changed(), [&](ChunkId chunk) { prepare(chunk), order_.prepare(chunk); },
      [&](ChunkId chunk) {
        snapshot.prepare(chunk);
        order_.prepare_put(chunk);
      },
      [&](ChunkId chunk) { look_at(snapshot, chunk); });
  ended_.clear();
  endings_.take_due(snapshot.now(), ended_);
  for (const ChunkId chunk : ended_) place_in_order(snapshot, chunk);
  while (const std::optional<ChunkId> chunk = announced_.take_due(snapshot.now())) {
    read(snapshot, *chunk, outlook_);
    collect(snapshot, *chunk);
  }
  grant_best(snapshot, plan);
}

void CostBenefit::on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) {
  const ChunkRow& row = snapshot.chunk(use.chunk);
  if (use.hint == nullptr) {
    shifts_.note(use, snapshot);
    limits_.note(use, row.at, snapshot);
  }
  if (!may_move(row)) return;
  Hint now_on;
  const Hint* hint = use.hint;
  if (hint == nullptr) {
    if (use.device == row.at) return;
    if (index(use.chunk) >= looked_.size()) looked_.resize(snapshot.chunks().size());
    // Most uses bring no news, which can be decided before computing any faded average.
    if (snapshot.demand_most(use.chunk) < again_by_use * looked_[index(use.chunk)]) return;
  } else if (!hint->next_use) {  // A hint without a time that is given now means soon.
    now_on = *hint;
    now_on.next_use = snapshot.now();
    hint = &now_on;
  } else if (const Time due =
                 *hint->next_use -
                 std::chrono::duration_cast<Time>(std::chrono::duration<double>(weights_.horizon));
             due > snapshot.now()) {
    announced_.remember(use.chunk, due);
  }
  read(snapshot, use.chunk, outlook_, hint);
  if (use.hint == nullptr) {
    float& looked = looked_[index(use.chunk)];
    if (outlook_.demand() < again_by_use * looked) return;
    looked = static_cast<float>(outlook_.demand());
  }
  budget_.refill(snapshot.costs(), snapshot.now());
  prices_.begin(snapshot.costs());
  goals_.clear();
  const Wanted wanted = find_goals(snapshot, use.chunk, outlook_);
  if (wanted.count == 0) return;
  begin_granting(snapshot);
  Room room(snapshot);
  grant(snapshot, wanted, room, plan);
}

/// What moving the chunk away would cost its users, per byte.
double CostBenefit::loss_per_byte(const Snapshot& snapshot, ChunkId chunk, PlaceId to) {
  const ChunkRow& row = snapshot.chunk(chunk);
  read(snapshot, chunk, victim_outlook_);
  const double lost = victim_outlook_.all_seconds_at(to) - victim_outlook_.all_seconds_at(row.at);
  return std::max(0.0, lost) / static_cast<double>(row.bytes);
}

void CostBenefit::on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) {
  if (!looked_over_) look_over_all(snapshot);
  // What comes is unknown, so it is expected to be worth as much as the mean of what is there.
  const double worth =
      pressure.elsewhere ? order_.mean_value(pressure.at, half_lives(snapshot)) : 0;
  Room room(snapshot);
  std::uint64_t freed = 0;
  for (std::uint32_t number = order_.first(pressure.at);
       freed < pressure.bytes && number != ChunkRow::none; number = order_.next(number)) {
    const ChunkId chunk{number};
    const ChunkRow& row = snapshot.chunk(chunk);
    if (!may_move(row) || row.at != pressure.at) continue;
    const std::optional<PlaceId> to = next_place(snapshot, chunk, room);
    if (!to) continue;
    const double loss = loss_per_byte(snapshot, chunk, *to);
    if (pressure.elsewhere && loss > 0 && weights_.colder * loss > worth) {
      plan.decline();
      return;
    }
    room.move(row.at, *to, row.bytes);
    freed += row.bytes;
    plan.evict(chunk, *to,
               "least worth at " + name_of(snapshot, row.at) + ", asked for " +
                   rate_text(victim_outlook_.demand()) + ", where " + bytes_text(pressure.bytes) +
                   " are wanted");
  }
}

}  // namespace

PolicyKind cost_benefit_kind() {
  using Type = PolicyParameter::Type;
  return {"cost_benefit",
          "ARMS, arXiv 2508.04417; Griffin, HPCA 2020",
          {{"horizon", Type::duration, 4, 0.001, 3600,
            "how long use is expected to continue; four half-lives of the short average"},
           {"margin", Type::number, 1.25, 1, 100,
            "minimum ratio of benefit to cost, and of access times, for a move"},
           {"colder", Type::number, 2, 1, 100,
            "how many times less a victim must be worth per byte than the chunk that replaces it"},
           {"stall_weight", Type::number, 1, 0, 100,
            "weight of a second during which a move stops the program's streams"},
           {"route_share", Type::number, 0.5, 0.01, 1,
            "fraction of a route's copy rate that moves may use"},
           {"half_life", Type::duration, 1, 0.001, 3600,
            "decay of the short average, used to compare chunks that nobody uses"},
           {"shift", Type::duration, 0.25, 0, 3600,
            "how long use must have shifted to another place, or paused, for the averages to be "
            "ignored; 0: never"},
           {"limit", Type::number, 0, 0, 1,
            "load of a path from which on all of a saving counts; 0: it always counts"}},
          [](const PolicyValues& values) -> std::unique_ptr<Policy> {
            return std::make_unique<CostBenefit>(values);
          }};
}

}  // namespace vma::inline v1
