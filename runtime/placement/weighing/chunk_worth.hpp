#pragma once

#include <vma/policy.hpp>
#include <vma/snapshot.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
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
inline bool may_move(const ChunkRow& row) {
  return row.bytes > 0 && row.movable && row.in_scope && !row.moving && !row.parked && !row.dropped;
}
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

/// Calls `body` for each of the chunks. What it reads of them is fetched before, so that no chunk
/// waits for memory alone: rows, what `tables` prefetches by the chunk's number, and what
/// `links` finds there.
template <typename Tables, typename Links, typename Body>  // Each is called with a ChunkId.
void for_each_ahead(const Snapshot& snapshot, std::span<const ChunkId> chunks, Tables&& tables,
                    Links&& links, Body&& body) {
  constexpr std::size_t ahead = 8;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (i + 2 * ahead < chunks.size()) {
      const ChunkRow& row = snapshot.chunk(chunks[i + 2 * ahead]);
      __builtin_prefetch(&row);
      __builtin_prefetch(&row.users);  // It may be in the next cache line.
      tables(chunks[i + 2 * ahead]);
    }
    if (i + ahead < chunks.size()) links(chunks[i + ahead]);
    body(chunks[i]);
  }
}

/// Prefetch: the chunk's part of a table is about to be read and written.
template <typename Value>
void prepare_cell(const std::vector<Value>& table, ChunkId chunk) {
  if (index(chunk) < table.size()) __builtin_prefetch(&table[index(chunk)], 1);
}

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

/// What moves cost, computed once for the chunks of a size. A policy that weighs every place for
/// every chunk asks for the same few prices thousands of times a tick.
class MovePrices {
 public:
  explicit MovePrices(double stall_weight) : stall_weight_(stall_weight) {}

  /// A call of the policy begins: the machine's costs may have changed since the last one.
  void begin(const MachineCosts& costs) {
    places_ = costs.places();
    prices_.assign(places_ * places_, {});
  }
  /// As `move_seconds`. Requires: `begin` was called with these costs.
  double seconds(const MachineCosts& costs, PlaceId from, PlaceId to, std::uint64_t bytes) {
    Price& price = prices_[index(from) * places_ + index(to)];
    if (price.bytes != bytes) price = {bytes, move_seconds(costs, from, to, bytes, stall_weight_)};
    return price.seconds;
  }

 private:
  struct Price {
    std::uint64_t bytes = 0;  // No chunk has none.
    double seconds = 0;
  };
  const double stall_weight_;
  std::size_t places_ = 0;
  std::vector<Price> prices_;  // By route: that of the last size.
};

/// How long use is assumed to continue unchanged if a rule does not define it: the half-life of the
/// long averages.
inline constexpr Time expected_use = std::chrono::seconds(10);

/// Seconds of access that `chunk` would save at `to` if its use continued for `expected_use` at the
/// short averages, minus the time of the move. 0 if it would not pay: the rules that use this only
/// report it. Requires: there is a way from where the chunk is.
double expected_saving(const Snapshot& snapshot, ChunkId chunk, PlaceId to);

/// Which GPUs work, so that a stall holds them up: those that used memory within the last second.
class WorkingGpus {
 public:
  void note(PlaceId device, Time now) {
    if (index(device) >= last_use_.size()) last_use_.resize(index(device) + 1, Time::min());
    last_use_[index(device)] = now;
  }
  std::size_t count(Time now) const {
    return static_cast<std::size_t>(std::ranges::count_if(last_use_, [&](Time last) {
      return last != Time::min() && last + std::chrono::seconds(1) >= now;
    }));
  }

 private:
  std::vector<Time> last_use_;  // By GPU.
};

}  // namespace vma::inline v1
