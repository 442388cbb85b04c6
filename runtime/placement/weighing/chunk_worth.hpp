#pragma once

#include <vma/snapshot.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// Properties that several policies derive from a snapshot: may a chunk move, what would that cost,
/// which GPUs use it. Pure functions; times are in seconds.
namespace vma::inline v1 {

/// Averages fade but never reach zero: less than this counts as no use.
inline constexpr double bytes_s_least = 1;

std::string name_of(const Snapshot& snapshot, PlaceId place);
/// "4.1 GB/s"; "2.5 ms": for reasons.
std::string rate_text(double bytes_per_second);
std::string time_text(double seconds);

/// The chunk exists, and may move now.
bool may_move(const ChunkRow& row);
/// Every GPU of the machine that has used the chunk recently reaches `to`, and there is a way from
/// where the chunk is.
bool can_lie(const Snapshot& snapshot, ChunkId chunk, PlaceId to);
/// Copy and fixed time of a move, plus `stall_weight` times the time for which the program's
/// streams are stopped. Infinite if there is no way.
double move_seconds(const MachineCosts& costs, PlaceId from, PlaceId to, std::uint64_t bytes,
                    double stall_weight);
/// What `device` would save on `bytes` if they were at `to` instead of `from`; negative if it would
/// lose. Requires: it reaches both.
double saved_seconds(const MachineCosts& costs, PlaceId device, PlaceId from, PlaceId to,
                     double bytes);

struct MainUser {
  PlaceId device{};
  Heat heat;
};
/// The GPU that uses the chunk most by the short average; of equals the lowest number.
std::optional<MainUser> main_user(const Snapshot& snapshot, ChunkId chunk);

/// Free bytes of each place, minus what a plan in the making puts there.
class Room {
 public:
  explicit Room(const Snapshot& snapshot);
  std::uint64_t at(PlaceId place) const { return free_[index(place)]; }
  bool holds(PlaceId place, std::uint64_t bytes) const { return at(place) >= bytes; }
  /// Requires: the bytes fit there.
  void move(PlaceId from, PlaceId to, std::uint64_t bytes);
  /// Requires: the bytes fit there.
  void take(PlaceId place, std::uint64_t bytes);

 private:
  std::vector<std::uint64_t> free_;
};

/// The places after `row.at` in the order of the chunk's main user (without users, of the GPU whose
/// HBM it is in), the fastest first. Empty if it is in the last one.
std::span<const PlaceId> slower_places(const Snapshot& snapshot, ChunkId chunk);
/// The first of these that has room for the chunk and that its users reach. `gpu_reserve`: the
/// share of a GPU's HBM that must stay free.
std::optional<PlaceId> next_place(const Snapshot& snapshot, ChunkId chunk, const Room& room,
                                  double gpu_reserve = 0);

}  // namespace vma::inline v1
