#include "lab/policies/lab_policies.hpp"

#include "base/units.hpp"
#include "placement/auto/auto.hpp"
#include "placement/weighing/chunk_worth.hpp"
#include "lab/policies/demand_growth.hpp"
#include "placement/weighing/live_allocations.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace vma::inline v1 {
namespace {

using namespace std::chrono_literals;

constexpr double unknown_life_s = 3600;
constexpr double unknown_passes_s = 1;
constexpr Lifetime unseen{0.01, 200};  // It ended before a tick saw it.
constexpr Time unseen_max = 1s;        // After that it is not expected.
constexpr Time idle_least = 100ms;     // Of chunks that leave.
constexpr Time room_period = 100ms;    // Between two searches for chunks that may leave.
constexpr std::size_t sparser_by = 2;  // Classes sparser than the allocation it leaves for.
constexpr std::size_t all = DemandGrowth::classes;  // Everything is denser than this.

/// Rule: an allocation is expected to be used like the last one that followed the same requests
/// (`AllocationContexts`). From that follows its class: passes over its bytes per second of its
/// life. It gets HBM only if that leaves room for all that denser classes are likely to request
/// during its life (`DemandGrowth`); otherwise it begins in host memory, so that long-lived, rarely
/// used memory does not keep out the working set. If HBM still runs short, the chunks of sparser
/// classes that have been idle longest leave it. Apart from that `cost_benefit` decides, with the
/// same parameters; it leaves the same room.
///
/// Without requests it behaves as `cost_benefit`.
///
/// From: D. A. Barrett and B. G. Zorn, "Using Lifetime Predictors to Improve Memory Allocation
/// Performance", PLDI 1993; M. Maas et al., "Learning-based Memory Allocation for C++ Server
/// Workloads" (LLAMA), ASPLOS 2020: classes of lifetime, predicted from an allocation's context.
/// That context is a call stack there; here it is the order of requests, which X. Peng et al.
/// ("Capuchin", ASPLOS 2020) find to be regular in training.
class LifetimeClass : public Policy {
 public:
  explicit LifetimeClass(const PolicyValues& values)
      : ahead_(values["ahead"]),
        growth_(values.duration("window")),
        inner_(cost_benefit_kind().make(values)) {}

  void on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                std::span<PlaceId> chunks) override;
  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override;
  void on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) override {
    inner_->on_pressure(pressure, snapshot, plan);
  }
  void on_tick(const Snapshot& snapshot, Plan& plan) override;
  void on_result(const MoveResult& result, const Snapshot& snapshot) override {
    inner_->on_result(result, snapshot);
  }
  void on_gone(ChunkId chunk) override;

 private:
  using Allocation = LiveAllocations::Allocation;
  struct Idle {
    std::size_t of_class = 0;
    Time last_use{0};
    ChunkId chunk{};
  };

  LiveAllocations::Number find(ChunkId chunk, const Snapshot& snapshot);
  void count(Allocation& allocation, bool as_demand);
  void give_up_unseen();
  void take_over(const Plan& inner, const Snapshot& snapshot, Plan& plan) const;
  void make_room(const Snapshot& snapshot, Plan& plan);
  std::size_t class_by_now(const Allocation& allocation) const;
  std::vector<Idle> idle_chunks(const Snapshot& snapshot);

  const double ahead_;
  DemandGrowth growth_;
  const std::unique_ptr<Policy> inner_;
  AllocationContexts contexts_;
  LiveAllocations allocations_;
  Time now_{0}, last_tick_{0}, next_room_{0};
};

/// All GPUs lend each other memory: it is one pool.
double free_hbm(const Snapshot& snapshot) {
  double bytes = 0;
  for (std::size_t i = 0; i < snapshot.costs().gpus(); ++i)
    bytes += static_cast<double>(snapshot.places()[i].free_bytes());
  return bytes;
}

bool at_gpu(const Snapshot& snapshot, PlaceId place) {
  return index(place) < snapshot.costs().gpus();
}

/// The fastest host node with room.
std::optional<PlaceId> host_for(const Snapshot& snapshot, PlaceId device, const Room& room,
                                std::uint64_t bytes) {
  for (const PlaceId place : snapshot.costs().by_speed(device)) {
    if (!at_gpu(snapshot, place) && room.holds(place, bytes)) return place;
  }
  return std::nullopt;
}

// --- Live allocations

void LifetimeClass::count(Allocation& allocation, bool as_demand) {
  if (allocation.counted == as_demand) return;
  allocation.counted = as_demand;
  const double bytes = static_cast<double>(allocation.bytes);
  growth_.add(allocation.of_class, as_demand ? bytes : -bytes, now_);
}

LiveAllocations::Number LifetimeClass::find(ChunkId chunk, const Snapshot& snapshot) {
  const LiveAllocations::Number number = allocations_.find(chunk, snapshot);
  if (number != LiveAllocations::none) {
    allocations_[number].found = true;
    count(allocations_[number], true);
  }
  return number;
}

/// Allocations requested before the last tick and not seen since ended before that.
void LifetimeClass::give_up_unseen() {
  allocations_.unseen(last_tick_, [&](Allocation& allocation) {
    if (!allocation.counted) return;
    contexts_.ended(allocation.keys, unseen);
    count(allocation, false);
  });
  // Not those that the next look has still to subtract.
  allocations_.drop_unseen(std::min(last_tick_, now_ - unseen_max));
  last_tick_ = now_;
}

void LifetimeClass::on_gone(ChunkId chunk) {
  inner_->on_gone(chunk);
  const LiveAllocations::Number number = allocations_.gone(chunk);
  if (number == LiveAllocations::none) return;
  Allocation& allocation = allocations_[number];
  contexts_.ended(allocation.keys, allocation.found ? allocation.lifetime() : unseen);
  count(allocation, false);
  allocations_.forget(number);
}

// --- Where an allocation begins

void LifetimeClass::on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                             std::span<PlaceId> chunks) {
  inner_->on_alloc(request, snapshot, chunks);
  if (request.bytes == 0 || request.chunk_bytes == 0) return;
  now_ = snapshot.now();
  Allocation allocation;
  allocation.bytes = request.bytes;
  allocation.chunk_bytes = request.chunk_bytes;
  allocation.born = allocation.last_use = now_;
  allocation.keys = contexts_.see(request);
  const Lifetime expected = contexts_.expected(allocation.keys, now_)
                                .value_or(Lifetime{unknown_life_s, unknown_passes_s});
  allocation.of_class = DemandGrowth::class_of(expected.passes_s);
  const double kept = growth_.most(allocation.of_class, expected.life_s);
  double left = free_hbm(snapshot);
  Room room(snapshot);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (!at_gpu(snapshot, chunks[i])) continue;
    const std::uint64_t bytes =
        std::min(request.chunk_bytes, request.bytes - i * request.chunk_bytes);
    if (left - static_cast<double>(bytes) >= kept) {
      left -= static_cast<double>(bytes);
    } else if (const auto host = host_for(snapshot, request.device, room, bytes)) {
      room.take(*host, bytes);
      chunks[i] = *host;
    }
  }
  contexts_.begun(allocation.keys, now_);
  growth_.add(allocation.of_class, static_cast<double>(allocation.bytes), now_);
  allocations_.add(allocation, request.tag, chunks, snapshot);
}

// --- Moves

/// Chunks that come to HBM leave the room that short-lived allocations are likely to request, or as
/// much of it as is free.
void LifetimeClass::take_over(const Plan& inner, const Snapshot& snapshot, Plan& plan) const {
  double left = free_hbm(snapshot);
  const double kept = std::min(left, growth_.more(all, ahead_));
  for (const Move& move : inner.moves()) {
    const ChunkRow& row = snapshot.chunk(move.chunk);
    double change = 0;
    if (at_gpu(snapshot, row.at)) change += static_cast<double>(row.bytes);
    if (at_gpu(snapshot, move.to)) change -= static_cast<double>(row.bytes);
    if (change < 0 && left + change < kept) continue;
    left += change;
    if (move.victim) {
      plan.evict(move.chunk, move.to, move.reason);
    } else {
      plan.move(move.chunk, move.to, move.value, move.reason, move.keep_copy);
    }
  }
}

/// The predicted or the current class, whichever is sparser.
std::size_t LifetimeClass::class_by_now(const Allocation& allocation) const {
  const double age = in_seconds(now_ - allocation.born);
  if (age <= 0) return allocation.of_class;
  const double passes = allocation.used_bytes / static_cast<double>(allocation.bytes);
  return std::max(allocation.of_class, DemandGrowth::class_of(std::max(1.0, passes) / age));
}

/// Idle chunks in HBM, the sparsest class first, and within it the longest idle first.
std::vector<LifetimeClass::Idle> LifetimeClass::idle_chunks(const Snapshot& snapshot) {
  std::vector<Idle> idle;
  for (const Allocation& allocation : allocations_.all()) {
    if (!allocation.lives || allocation.first == ChunkRow::none) continue;
    const std::size_t of_class = class_by_now(allocation);
    if (of_class <= sparser_by) continue;
    for (std::uint32_t i = 0; i < allocation.chunks(); ++i) {
      const ChunkId chunk{allocation.first + i};
      if (index(chunk) >= snapshot.chunks().size() || snapshot.chunk(chunk).slot != i) break;
      const ChunkRow& row = snapshot.chunk(chunk);
      if (may_move(row) && at_gpu(snapshot, row.at) && now_ - row.last_use >= idle_least)
        idle.push_back({of_class, row.last_use, chunk});
    }
  }
  std::ranges::sort(idle, [](const Idle& left, const Idle& right) {
    if (left.of_class != right.of_class) return left.of_class > right.of_class;
    return std::pair(left.last_use, left.chunk) < std::pair(right.last_use, right.chunk);
  });
  return idle;
}

/// For denser allocations that are likely to come.
void LifetimeClass::make_room(const Snapshot& snapshot, Plan& plan) {
  double left = free_hbm(snapshot);
  if (left >= growth_.more(DemandGrowth::classes - 1 - sparser_by, ahead_)) return;
  Room room(snapshot);
  std::set<ChunkId> planned;  // By the inner policy.
  for (const Move& move : plan.moves()) planned.insert(move.chunk);
  for (const Idle& idle : idle_chunks(snapshot)) {
    if (planned.contains(idle.chunk)) continue;
    const double kept = growth_.more(idle.of_class - sparser_by, ahead_);
    if (left >= kept) continue;  // The denser it is, the less room is kept free from it.
    const ChunkRow& row = snapshot.chunk(idle.chunk);
    const auto host = host_for(snapshot, row.at, room, row.bytes);
    if (!host || !can_lie(snapshot, idle.chunk, *host)) continue;
    room.move(row.at, *host, row.bytes);
    left += static_cast<double>(row.bytes);
    plan.evict(idle.chunk, *host,
               "idle for " + time_text(in_seconds(now_ - row.last_use)) +
                   ", and of a kind that is used seldom; what is used more has grown by " +
                   std::to_string(static_cast<std::uint64_t>(kept)) + " bytes within " +
                   time_text(ahead_));
  }
}

// --- Entry points

void LifetimeClass::on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) {
  now_ = snapshot.now();
  if (use.hint == nullptr) {
    const LiveAllocations::Number number = find(use.chunk, snapshot);
    if (number != LiveAllocations::none) {
      allocations_[number].used_bytes += use.bytes();
      allocations_[number].last_use = now_;
    }
  }
  Plan inner;
  inner_->on_use(use, snapshot, inner);
  if (!inner.empty()) take_over(inner, snapshot, plan);
}

void LifetimeClass::on_tick(const Snapshot& snapshot, Plan& plan) {
  now_ = snapshot.now();
  growth_.pass(now_);
  for (const ChunkId chunk : snapshot.changed())
    if (snapshot.chunk(chunk).bytes > 0) find(chunk, snapshot);
  allocations_.end_tick(snapshot);
  give_up_unseen();
  Plan inner;
  inner_->on_tick(snapshot, inner);
  if (!inner.empty()) take_over(inner, snapshot, plan);
  if (now_ < next_room_) return;
  next_room_ = now_ + room_period;
  make_room(snapshot, plan);
}

}  // namespace

PolicyKind lifetime_class_kind() {
  using Type = PolicyParameter::Type;
  PolicyKind kind = cost_benefit_kind();  // Its parameters are the inner policy's.
  kind.name = "lifetime_class";
  kind.source = "Barrett and Zorn, PLDI 1993; LLAMA, ASPLOS 2020; around cost_benefit";
  kind.parameters.push_back({"window", Type::duration, 2, 0.01, 3600,
                             "how long growth of demand is remembered, twice over"});
  kind.parameters.push_back(
      {"ahead", Type::duration, 0.3, 0.01, 3600,
       "idle chunks leave HBM for what denser classes may need within this time"});
  kind.make = [](const PolicyValues& values) -> std::unique_ptr<Policy> {
    return std::make_unique<LifetimeClass>(values);
  };
  return kind;
}

}  // namespace vma::inline v1
