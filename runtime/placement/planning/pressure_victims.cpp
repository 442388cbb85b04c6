#include "placement/planning/planner.hpp"

#include "placement/planning/third_places.hpp"
#include "placement/planning/proposal_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <unordered_set>

namespace vma {
namespace {

struct Candidate {
  Time idle{0};
  ChunkId chunk{};
};

/// The coldest is on top of a heap: longest idle, then least used per byte, then by number.
struct Warmer {
  const Snapshot& snapshot;
  bool operator()(const Candidate& left, const Candidate& right) const {
    if (left.idle != right.idle) return left.idle < right.idle;
    return std::tuple(use_per_byte(left.chunk, snapshot), left.chunk) >
           std::tuple(use_per_byte(right.chunk, snapshot), right.chunk);
  }
};

/// Takes the room of a victim at the fastest other place that has enough.
std::optional<PlaceId> find_room(ChunkId chunk, const Pressure& pressure, const Snapshot& snapshot,
                                 std::vector<std::int64_t>& room) {
  const auto bytes = static_cast<std::int64_t>(snapshot.chunk(chunk).bytes);
  for (const PlaceId to : places_for(chunk, pressure.device, snapshot)) {
    if (to == pressure.at || room[index(to)] < bytes || !can_lie_at(chunk, to, snapshot)) continue;
    room[index(to)] -= bytes;
    return to;
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t Planner::complete_pressure(const Pressure& pressure, const Snapshot& snapshot,
                                         Plan& plan) const {
  if (index(pressure.at) >= snapshot.places().size()) return 0;
  std::vector<std::int64_t> left = room(snapshot);
  std::unordered_set<ChunkId> planned;
  std::uint64_t freed = 0;
  for (const Move& move : plan.moves()) {
    if (refuse_move(move, snapshot, under_way_, history_, limits_)) continue;
    const ChunkRow& row = snapshot.chunk(move.chunk);
    const auto bytes = static_cast<std::int64_t>(row.bytes);
    if (row.at != pressure.at || !planned.insert(move.chunk).second) continue;
    if (left[index(move.to)] < bytes) continue;
    left[index(move.to)] -= bytes;
    freed += row.bytes;
  }
  if (freed >= pressure.bytes || (pressure.elsewhere && plan.declines())) return freed;

  // Room only shrinks: what is larger than all of it is no candidate.
  std::int64_t largest = 0;
  for (std::size_t at = 0; at < left.size(); ++at)
    if (at != index(pressure.at)) largest = std::max(largest, left[at]);
  if (largest == 0) return freed;

  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < snapshot.chunks().size(); ++i) {
    const ChunkRow& row = snapshot.chunks()[i];
    const ChunkId chunk{static_cast<std::uint32_t>(i)};
    if (row.bytes == 0 || row.dropped || row.at != pressure.at || planned.contains(chunk)) continue;
    if (static_cast<std::int64_t>(row.bytes) > largest) continue;
    candidates.push_back({snapshot.now() - std::max(row.last_use, row.born), chunk});
  }
  const Warmer warmer{snapshot};
  std::ranges::make_heap(candidates, warmer);
  while (freed < pressure.bytes && !candidates.empty()) {
    std::ranges::pop_heap(candidates, warmer);
    const Candidate coldest = candidates.back();
    candidates.pop_back();
    if (refuse_chunk(coldest.chunk, snapshot, under_way_, history_, limits_)) continue;
    const std::optional<PlaceId> to = find_room(coldest.chunk, pressure, snapshot, left);
    if (!to) continue;
    plan.evict(coldest.chunk, *to,
               fmt::format("{} needs room; it has been idle for {:.3f} s",
                           to_string(snapshot.place(pressure.at).location),
                           std::chrono::duration<double>(coldest.idle).count()));
    freed += snapshot.chunk(coldest.chunk).bytes;
  }
  return freed;
}

}  // namespace vma
