#include "placement/weighing/chunk_worth.hpp"

#include "base/check.hpp"
#include "base/units.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>

namespace vma::inline v1 {

std::string name_of(const Snapshot& snapshot, PlaceId place) {
  return to_string(snapshot.place(place).place);
}

std::string rate_text(double bytes_per_second) {
  char text[32];
  const bool large = bytes_per_second >= 1e8;
  std::snprintf(text, sizeof text, large ? "%.1f GB/s" : "%.2f MB/s",
                bytes_per_second / (large ? 1e9 : 1e6));
  return text;
}

std::string time_text(double seconds) {
  char text[32];
  if (seconds >= 1) {
    std::snprintf(text, sizeof text, "%.2f s", seconds);
  } else if (seconds >= 1e-3) {
    std::snprintf(text, sizeof text, "%.2f ms", seconds * 1e3);
  } else {
    std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
  }
  return text;
}

bool can_lie(const Snapshot& snapshot, ChunkId chunk, PlaceId to) {
  const MachineCosts& costs = snapshot.costs();
  if (costs.copy_rate(snapshot.chunk(chunk).at, to) <= 0) return false;
  bool all = true;
  for (std::size_t gpu = 0; gpu < costs.gpus() && all; ++gpu)
    all = costs.reaches(PlaceId{static_cast<std::uint8_t>(gpu)}, to);
  if (all) return true;  // The usual case, for which no use has to be faded.
  all = true;
  snapshot.for_each_user(chunk, [&](PlaceId device, const Heat& heat) {
    if (heat.long_term() >= bytes_s_least && !costs.reaches(device, to)) all = false;
  });
  return all;
}

double move_seconds(const MachineCosts& costs, PlaceId from, PlaceId to, std::uint64_t bytes,
                    double stall_weight) {
  if (costs.copy_rate(from, to) <= 0) return std::numeric_limits<double>::infinity();
  return in_seconds(costs.move_time(from, to, bytes)) +
         stall_weight * in_seconds(costs.stall_time(from, to, bytes));
}

double saved_seconds(const MachineCosts& costs, PlaceId device, PlaceId from, PlaceId to,
                     double bytes) {
  return costs.access_seconds(device, from, bytes) - costs.access_seconds(device, to, bytes);
}

std::optional<MainUser> main_user(const Snapshot& snapshot, ChunkId chunk) {
  std::optional<MainUser> found;
  snapshot.for_each_user(chunk, [&](PlaceId device, const Heat& heat) {
    if (heat.long_term() < bytes_s_least) return;
    const bool hotter = !found || heat.short_term() > found->heat.short_term();
    const bool equal = found && heat.short_term() == found->heat.short_term();
    if (hotter || (equal && device < found->device)) found = MainUser{device, heat};
  });
  return found;
}

Room::Room(const Snapshot& snapshot) {
  for (const PlaceState& place : snapshot.places()) free_.push_back(place.free_bytes());
}

void Room::take(PlaceId place, std::uint64_t bytes) {
  VMART_CHECK(holds(place, bytes), "a plan puts nothing where there is no room");
  free_[index(place)] -= bytes;
}

void Room::move(PlaceId from, PlaceId to, std::uint64_t bytes) {
  take(to, bytes);
  free_[index(from)] += bytes;
}

std::span<const PlaceId> slower_places(const Snapshot& snapshot, ChunkId chunk) {
  const ChunkRow& row = snapshot.chunk(chunk);
  const MachineCosts& costs = snapshot.costs();
  const std::optional<MainUser> user = main_user(snapshot, chunk);
  const bool at_gpu = index(row.at) < costs.gpus();
  if (!user && !at_gpu) return {};
  const std::span<const PlaceId> order = costs.by_speed(user ? user->device : row.at);
  const auto here = std::ranges::find(order, row.at);
  if (here == order.end()) return {};
  return {here + 1, order.end()};
}

std::optional<PlaceId> next_place(const Snapshot& snapshot, ChunkId chunk, const Room& room,
                                  double gpu_reserve) {
  const ChunkRow& row = snapshot.chunk(chunk);
  for (const PlaceId next : slower_places(snapshot, chunk)) {
    const double capacity = static_cast<double>(snapshot.place(next).capacity_bytes);
    const double kept = index(next) < snapshot.costs().gpus() ? gpu_reserve * capacity : 0;
    if (!room.holds(next, row.bytes + static_cast<std::uint64_t>(kept))) continue;
    if (can_lie(snapshot, chunk, next)) return next;
  }
  return std::nullopt;
}

double expected_saving(const Snapshot& snapshot, ChunkId chunk, PlaceId to) {
  const ChunkRow& row = snapshot.chunk(chunk);
  const double saved =
      snapshot.access_load_short(chunk, row.at) - snapshot.access_load_short(chunk, to);
  const double cost = in_seconds(snapshot.costs().move_time(row.at, to, row.bytes));
  // A use that has faded away may be of a GPU that reaches neither: then the saving is unknown.
  return std::isfinite(saved) ? std::max(0.0, saved * in_seconds(expected_use) - cost) : 0;
}

}  // namespace vma::inline v1
