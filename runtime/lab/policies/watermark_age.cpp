#include "lab/policies/lab_policies.hpp"

#include "base/units.hpp"
#include "placement/weighing/chunk_worth.hpp"
#include "placement/weighing/room_for_chunks.hpp"
#include "lab/policies/warmth.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

namespace vma::inline v1 {
namespace {

constexpr std::size_t victims_max = 64;  // For one promotion.
constexpr double owner_share = 0.5;  // Of the top user's bytes: HBM whose GPU uses as much keeps.

/// A token bucket of bytes. It is open while any bytes are left; more may be taken than are left,
/// which leaves a debt, so that a chunk larger than the bucket can move at all.
class ByteQuota {
 public:
  /// Full at the first call. `depth`: the most that can accumulate.
  void refill(Time now, double bytes_s, double depth) {
    const double passed = std::chrono::duration<double>(now - filled_).count();
    left_ = started_ ? std::min(depth, left_ + bytes_s * std::max(0.0, passed)) : depth;
    filled_ = now;
    started_ = true;
  }
  bool open() const { return left_ > 0; }
  void take(std::uint64_t bytes) { left_ -= static_cast<double>(bytes); }
  void give_back(std::uint64_t bytes) { left_ += static_cast<double>(bytes); }

 private:
  double left_ = 0;
  Time filled_{0};
  bool started_ = false;
};

/// `watermark_age`: each GPU keeps some HBM free by demoting cold chunks, and promotes chunks that
/// are used twice.
///
/// Sources: TPP, Maruf et al., ASPLOS 2023: demotion instead of eviction, a demotion watermark
/// above that of allocations so that these find room, promotion at the second touch. DAMOS of Linux
/// (mm/damon): coldness from frequency and age, a quota of bytes per time, a high and a low
/// watermark. AutoTiering, Kim et al., ATC 2021: if nothing is free, only colder chunks make room.
///
/// - Warmth of a chunk: the logarithm to base 2 of its passes per second (bytes used per second by
///   the long average, divided by its bytes) at its last use, minus one for each `half_life` since
///   then; in steps of a quarter. So age and frequency balance each other, and time does not change
///   the order of unused chunks. A chunk that was never used counts as passed over once at its
///   creation.
/// - Demotion, each tick: a GPU with less than `low` of its HBM free demotes, coldest first, until
///   `high` is free; chunks on their way out count as gone. Each goes to the next place in the
///   order of speed of that GPU that has room and that its users reach; a peer must keep its own
///   `high`.
/// - Promotion, at a use: the second touch of a chunk within `second_touch` sends it to the GPU
///   that uses it most, unless it is in HBM whose own GPU uses it at least half as much. Uses less
///   than `apart` after a touch are part of it. `low` stays free there; if it would not, chunks
///   that are colder by at least `colder` (in powers of two) are evicted for it, all that are
///   needed or none.
/// - Demotions and promotions share `quota`, a token bucket; an empty bucket stops both until it
///   fills. Under pressure the coldest leave, whatever the quota.
/// One owner: the watermarks, and what demotion and promotion know; they share one quota.
class WatermarkAge final : public Policy {
 public:
  explicit WatermarkAge(const PolicyValues& values)
      : low_(values["low"]),
        high_(std::max(values["low"], values["high"])),
        quota_s_(values["quota"]),
        quota_depth_(values.duration("quota_depth")),
        second_touch_(values.duration("second_touch")),
        apart_(std::min(values.duration("apart"), second_touch_ / 2)),
        colder_(values["colder"]),
        warmth_(values.duration("half_life")) {}

  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override;
  void on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) override;
  void on_tick(const Snapshot& snapshot, Plan& plan) override;
  void on_result(const MoveResult& result, const Snapshot& snapshot) override;
  void on_gone(ChunkId chunk) override;

 private:
  struct Victim {
    ChunkId chunk{};
    PlaceId to{};
  };
  bool second_touch(const UseEvent& use, Time now);
  void promote(ChunkId chunk, PlaceId to, const Snapshot& snapshot, Plan& plan);
  void demote(PlaceId gpu, const Snapshot& snapshot, RoomForChunks& room, Plan& plan);
  std::optional<PlaceId> next_tier(ChunkId chunk, const Snapshot& snapshot,
                                   const RoomForChunks& room) const;
  std::vector<Victim> colder_than(double limit, std::uint64_t bytes, PlaceId gpu,
                                  const Snapshot& snapshot);
  std::uint64_t free_now(PlaceId at, const Snapshot& snapshot) const;
  std::uint64_t leaving(PlaceId gpu, const Snapshot& snapshot) const;
  void refill(const Snapshot& snapshot);

  const double low_, high_, quota_s_;
  const Time quota_depth_, second_touch_, apart_;
  const double colder_;
  Warmth warmth_;
  ByteQuota quota_;
  std::vector<std::optional<Time>> touched_;  // By chunk: its last touch.
  ProposalsOfNow proposals_;
  std::vector<bool> demoting_;    // By GPU: it fell below `low`, and has not reached `high`.
  std::vector<ChunkId> leaving_;  // Demotions that were planned and may be in progress.
};

std::uint64_t share_of(const PlaceState& place, double share) {
  return static_cast<std::uint64_t>(static_cast<double>(place.capacity_bytes) * share);
}

// --- Quota

/// A tenth of the machine's slowest route, unless a parameter says otherwise.
double default_quota(const MachineCosts& costs) {
  double slowest = 0;
  for (std::size_t from = 0; from < costs.places(); ++from) {
    for (std::size_t to = 0; to < costs.places(); ++to) {
      const double rate = costs.copy_rate(PlaceId{static_cast<std::uint8_t>(from)},
                                          PlaceId{static_cast<std::uint8_t>(to)});
      if (from != to && rate > 0) slowest = slowest > 0 ? std::min(slowest, rate) : rate;
    }
  }
  return slowest / 10;
}

void WatermarkAge::refill(const Snapshot& snapshot) {
  const double bytes_s = quota_s_ > 0 ? quota_s_ : default_quota(snapshot.costs());
  quota_.refill(snapshot.now(), bytes_s, bytes_s * in_seconds(quota_depth_));
}

void WatermarkAge::on_result(const MoveResult& result, const Snapshot& snapshot) {
  if (!result.moved) quota_.give_back(snapshot.chunk(result.chunk).bytes);
}

void WatermarkAge::on_gone(ChunkId chunk) {
  warmth_.forget(chunk);
  std::erase(leaving_, chunk);
  if (index(chunk) < touched_.size()) touched_[index(chunk)].reset();
}

// --- Demotion

void WatermarkAge::on_tick(const Snapshot& snapshot, Plan& plan) {
  warmth_.follow(snapshot);
  refill(snapshot);
  std::erase_if(leaving_, [&](ChunkId chunk) { return !snapshot.chunk(chunk).moving; });
  const std::size_t gpus = snapshot.costs().gpus();
  demoting_.resize(gpus);
  RoomForChunks room(snapshot);
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
    demote(PlaceId{static_cast<std::uint8_t>(gpu)}, snapshot, room, plan);
  }
}

std::uint64_t WatermarkAge::leaving(PlaceId gpu, const Snapshot& snapshot) const {
  std::uint64_t bytes = 0;
  for (const ChunkId chunk : leaving_) {
    if (snapshot.chunk(chunk).at == gpu) bytes += snapshot.chunk(chunk).bytes;
  }
  return bytes;
}

void WatermarkAge::demote(PlaceId gpu, const Snapshot& snapshot, RoomForChunks& room, Plan& plan) {
  const PlaceState& place = snapshot.place(gpu);
  std::uint64_t free = place.free_bytes() + leaving(gpu, snapshot);
  const std::uint64_t high = share_of(place, high_);
  if (free < share_of(place, low_)) demoting_[index(gpu)] = true;
  if (free >= high) demoting_[index(gpu)] = false;
  if (!demoting_[index(gpu)]) return;
  warmth_.walk(snapshot, gpu, [&](ChunkId chunk) {
    if (free >= high || !quota_.open()) return false;
    const ChunkRow& row = snapshot.chunk(chunk);
    if (!may_move(row)) return true;
    const std::optional<PlaceId> to = next_tier(chunk, snapshot, room);
    if (!to) return true;
    char text[160];
    std::snprintf(
        text, sizeof text, "%s, %s has %.1f %% free and wants %.1f %%",
        Warmth::text(snapshot, chunk).c_str(), name_of(snapshot, gpu).c_str(),
        100 * static_cast<double>(place.free_bytes()) / static_cast<double>(place.capacity_bytes),
        100 * high_);
    plan.evict(chunk, *to, text);
    room.take(*to, row.bytes);
    quota_.take(row.bytes);
    leaving_.push_back(chunk);
    free += row.bytes;
    return true;
  });
}

/// The next place in the order of the GPU where the chunk is.
std::optional<PlaceId> WatermarkAge::next_tier(ChunkId chunk, const Snapshot& snapshot,
                                               const RoomForChunks& room) const {
  const ChunkRow& row = snapshot.chunk(chunk);
  for (const PlaceId at : snapshot.costs().by_speed(row.at)) {
    if (at == row.at || !can_lie(snapshot, chunk, at)) continue;
    const bool peer = index(at) < snapshot.costs().gpus();
    const std::uint64_t kept = peer ? share_of(snapshot.place(at), high_) : 0;
    if (room.fits(at, row.bytes + kept)) return at;
  }
  return std::nullopt;
}

void WatermarkAge::on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) {
  if (index(pressure.at) >= snapshot.costs().gpus()) return;
  warmth_.follow(snapshot);
  RoomForChunks room(snapshot);
  std::uint64_t freed = 0;
  warmth_.walk(snapshot, pressure.at, [&](ChunkId chunk) {
    if (freed >= pressure.bytes) return false;
    const ChunkRow& row = snapshot.chunk(chunk);
    if (!may_move(row)) return true;
    const std::optional<PlaceId> to = next_tier(chunk, snapshot, room);
    if (!to) return true;
    plan.evict(chunk, *to, Warmth::text(snapshot, chunk) + ", room is wanted");
    room.take(*to, row.bytes);
    freed += row.bytes;
    return true;
  });
}

// --- Promotion

/// Uses less than `apart_` after a touch are part of it; later than `second_touch_`, a first touch.
bool WatermarkAge::second_touch(const UseEvent& use, Time now) {
  if (index(use.chunk) >= touched_.size()) touched_.resize(index(use.chunk) * 2 + 1);
  std::optional<Time>& touched = touched_[index(use.chunk)];
  if (touched && now - *touched < apart_) return false;
  const bool second = touched && now - *touched <= second_touch_;
  touched = now;
  return second;
}

void WatermarkAge::on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) {
  if (use.hint != nullptr || use.bytes() <= 0) return;
  const ChunkRow& row = snapshot.chunk(use.chunk);
  proposals_.look(snapshot.now());
  if (!second_touch(use, snapshot.now()) || !may_move(row)) return;
  const std::optional<MainUser> top = main_user(snapshot, use.chunk);
  if (!top || top->device == row.at || !can_lie(snapshot, use.chunk, top->device)) return;
  if (index(row.at) < snapshot.costs().gpus() &&
      snapshot.heat(use.chunk, row.at).short_term() >= owner_share * top->heat.short_term()) {
    return;
  }
  refill(snapshot);
  if (quota_.open()) promote(use.chunk, top->device, snapshot, plan);
}

void WatermarkAge::promote(ChunkId chunk, PlaceId to, const Snapshot& snapshot, Plan& plan) {
  const std::uint64_t bytes = snapshot.chunk(chunk).bytes;
  const PlaceState& place = snapshot.place(to);
  const std::uint64_t wanted = bytes + share_of(place, low_), free = free_now(to, snapshot);
  double value = expected_saving(snapshot, chunk, to);
  std::uint64_t freed = 0;
  if (wanted > free) {
    const double limit = warmth_.of_used_now(snapshot, chunk) - colder_;
    const std::vector<Victim> victims = colder_than(limit, wanted - free, to, snapshot);
    if (victims.empty()) return;
    for (const Victim& victim : victims) {
      const std::uint64_t its_bytes = snapshot.chunk(victim.chunk).bytes;
      plan.evict(victim.chunk, victim.to,
                 Warmth::text(snapshot, victim.chunk) + ", colder than what comes");
      quota_.take(its_bytes);
      proposals_.add(victim.chunk, victim.to, its_bytes);
      value -= in_seconds(snapshot.costs().move_time(to, victim.to, its_bytes));
      freed += its_bytes;
    }
  }
  quota_.take(bytes);
  proposals_.add(chunk, to, bytes - std::min(bytes, freed));
  const double rate = snapshot.heat(chunk, to).short_term();
  plan.move(chunk, to, std::max(0.0, value),
            name_of(snapshot, to) + " touched it twice, and uses " + rate_text(rate));
}

/// Free bytes, minus what was proposed for there at this very time.
std::uint64_t WatermarkAge::free_now(PlaceId at, const Snapshot& snapshot) const {
  const std::uint64_t free = snapshot.place(at).free_bytes();
  return free - std::min(free, proposals_.bytes_to(at));
}

/// The victims for `bytes` of room; empty if there are not enough colder chunks.
std::vector<WatermarkAge::Victim> WatermarkAge::colder_than(double limit, std::uint64_t bytes,
                                                            PlaceId gpu, const Snapshot& snapshot) {
  std::vector<Victim> victims;
  RoomForChunks room(snapshot, proposals_);
  std::uint64_t freed = 0;
  warmth_.walk(snapshot, gpu, [&](ChunkId chunk) {
    if (freed >= bytes || victims.size() == victims_max) return false;
    if (warmth_.of(chunk) > limit) return false;
    const ChunkRow& row = snapshot.chunk(chunk);
    if (!may_move(row) || proposals_.has(chunk)) return true;
    const std::optional<PlaceId> to = next_tier(chunk, snapshot, room);
    if (!to) return true;
    room.take(*to, row.bytes);
    victims.push_back({chunk, *to});
    freed += row.bytes;
    return true;
  });
  if (freed < bytes) victims.clear();
  return victims;
}

}  // namespace

PolicyKind watermark_age_kind() {
  using enum PolicyParameter::Type;
  return {
      "watermark_age",
      "TPP (ASPLOS 2023), DAMOS of Linux, AutoTiering (ATC 2021)",
      {{"low", number, 0.02, 0, 0.9, "a GPU with a smaller fraction of its HBM free demotes"},
       {"high", number, 0.03, 0, 0.95, "demotion stops when this fraction is free; at least `low`"},
       {"quota", size, 0, 0, 1e13, "bytes moved per second; 0: a tenth of the slowest route"},
       {"quota_depth", duration, 1, 0.001, 3600, "how long unused quota accumulates"},
       {"second_touch", duration, 1, 0.001, 3600, "two touches within this time promote"},
       {"apart", duration, 0.01, 0, 60,
        "uses closer than this are one touch; at most half of second_touch"},
       {"half_life", duration, 60, 0.1, 86400, "idle time that counts as half the frequency"},
       {"colder", number, 1, 0.1, 20, "how much colder a victim must be, in powers of two"}},
      [](const PolicyValues& values) {
        return std::unique_ptr<Policy>(std::make_unique<WatermarkAge>(values));
      }};
}

}  // namespace vma::inline v1
