#pragma once

#include <vma/export.hpp>
#include <vma/place.hpp>
#include <vma/telemetry.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vma::inline v1 {

/// Time since the start of the runtime's clock.
using Time = std::chrono::nanoseconds;

/// Index into `Snapshot::places`. The place of its HBM also identifies a GPU that uses memory.
enum class PlaceId : std::uint8_t {};
constexpr std::size_t index(PlaceId place) {
  return static_cast<std::size_t>(place);
}
/// Index into `Snapshot::chunks`. Reused after the chunk is gone.
enum class ChunkId : std::uint32_t {};
constexpr std::size_t index(ChunkId chunk) {
  return static_cast<std::size_t>(chunk);
}

/// One chunk, as the scheduler sees it. 56 bytes.
struct ChunkRow {
  static constexpr std::uint32_t none = UINT32_MAX;

  std::uint64_t bytes = 0;                  ///< 0: no chunk has this id.
  Time born{0}, last_use{0}, last_move{0};  ///< 0: never.
  /// The same for all chunks of an allocation; numbered in order of creation.
  std::uint32_t allocation = 0;
  std::uint32_t slot = 0;        ///< Index of the chunk in its allocation.
  std::uint32_t heat = none;     ///< Internal to `Snapshot`.
  std::uint32_t hint = none;     ///< Internal to `Snapshot`.
  std::uint16_t generation = 0;  ///< Grows with each move; wraps around.
  std::uint16_t tag = 0;         ///< Internal to `Snapshot`.
  PlaceId at{};
  std::uint8_t recent_moves = 0;  ///< Moves within the window of the planner's safety rules.
  std::uint8_t users = 0;         ///< Number of GPUs that have used it.
  bool movable : 1 = true;        ///< Nothing pins it.
  bool in_scope : 1 = true;       ///< An attached stream may use it, so it can move now.
  bool moving : 1 = false;        ///< A move of it is planned or in progress.
  bool parked : 1 = false;        ///< Parked by its tag; only `resume` brings it back.
  bool changed : 1 = false;       ///< It is in `Snapshot::changed`.
  bool dropped : 1 = false;       ///< It has no memory and occupies no place; `at` is where it was.
};
static_assert(sizeof(ChunkRow) == 56);

/// How much one GPU uses one chunk: bytes per second, averaged with a short and a long half-life.
struct Heat {
  double read_short = 0, read_long = 0, write_short = 0, write_long = 0;
  double short_term() const { return read_short + write_short; }
  double long_term() const { return read_long + write_long; }
};

/// A GPU's HBM or a host node.
struct PlaceState {
  Place place;
  std::uint64_t capacity_bytes = 0;  ///< Available for chunks.
  std::uint64_t used_bytes = 0;      ///< Used by chunks, including those that are moving here.
  double demand_bytes_s = 0;  ///< Accesses of all GPUs to what lies here, by the short average.
  std::uint64_t free_bytes() const {
    return used_bytes < capacity_bytes ? capacity_bytes - used_bytes : 0;
  }
};

/// What using and moving memory costs on this machine. Rates are in bytes per second, 0 if there is
/// no path.
class VMART_EXPORT MachineCosts {
 public:
  /// The first `gpus` of the places are GPUs.
  MachineCosts(std::size_t gpus, std::size_t places);

  std::size_t gpus() const noexcept { return gpus_; }
  std::size_t places() const noexcept { return places_; }

  double& access_rate(PlaceId device, PlaceId at) { return access_[cell(device, at)]; }
  double access_rate(PlaceId device, PlaceId at) const { return access_[cell(device, at)]; }
  /// Latency of the first byte on an idle machine.
  Time& access_latency(PlaceId device, PlaceId at) { return latency_[cell(device, at)]; }
  Time access_latency(PlaceId device, PlaceId at) const { return latency_[cell(device, at)]; }
  double& copy_rate(PlaceId from, PlaceId to) { return copy_[cell(from, to)]; }
  double copy_rate(PlaceId from, PlaceId to) const { return copy_[cell(from, to)]; }
  /// Fixed cost of a move without its copy: target, grants, switch.
  Time& move_fixed(PlaceId from, PlaceId to) { return fixed_[cell(from, to)]; }
  Time move_fixed(PlaceId from, PlaceId to) const { return fixed_[cell(from, to)]; }
  /// Cost per byte of a move without its copy, in seconds.
  double& move_per_byte(PlaceId from, PlaceId to) { return move_byte_[cell(from, to)]; }
  double move_per_byte(PlaceId from, PlaceId to) const { return move_byte_[cell(from, to)]; }
  /// How long a program's streams stall for one chunk; `stall_per_byte`, in seconds, is added.
  Time& stall_fixed(PlaceId from, PlaceId to) { return stall_[cell(from, to)]; }
  Time stall_fixed(PlaceId from, PlaceId to) const { return stall_[cell(from, to)]; }
  double& stall_per_byte(PlaceId from, PlaceId to) { return stall_byte_[cell(from, to)]; }
  double stall_per_byte(PlaceId from, PlaceId to) const { return stall_byte_[cell(from, to)]; }

  bool reaches(PlaceId device, PlaceId at) const { return access_rate(device, at) > 0; }
  /// Seconds that `device` takes to access `bytes` at `at`; infinite if it cannot reach them.
  double access_seconds(PlaceId device, PlaceId at, double bytes) const {
    if (bytes <= 0) return 0;
    const double rate = access_rate(device, at);
    return rate > 0 ? bytes / rate : std::numeric_limits<double>::infinity();
  }
  /// Duration of a whole move on an otherwise idle machine.
  Time move_time(PlaceId from, PlaceId to, std::uint64_t bytes) const;
  Time stall_time(PlaceId from, PlaceId to, std::uint64_t bytes) const;
  /// Every place that `device` can reach, fastest first, starting with its own HBM. Requires:
  /// `rank` was called after the last change.
  std::span<const PlaceId> by_speed(PlaceId device) const { return by_speed_[index(device)]; }
  void rank();
  bool operator==(const MachineCosts&) const = default;

 private:
  std::size_t cell(PlaceId row, PlaceId column) const {
    return index(row) * places_ + index(column);
  }
  std::size_t gpus_, places_;
  std::vector<double> access_, copy_, move_byte_, stall_byte_;
  std::vector<Time> latency_, fixed_, stall_;
  std::vector<std::vector<PlaceId>> by_speed_;
};

/// Internal to `Snapshot`: the tables that it shows as they are, the base of its books.
class SnapshotTables {
 protected:
  SnapshotTables(std::vector<PlaceState> places, MachineCosts costs)
      : places_(std::move(places)), costs_(std::move(costs)) {}

  Time now_{0};
  std::vector<ChunkRow> rows_;
  std::vector<ChunkId> changed_;  // With room for all rows.
  std::vector<PlaceState> places_;
  MachineCosts costs_;

 private:
  friend class Snapshot;
};

/// A frozen view of all chunks, their use and the machine: the input of a policy. It borrows its
/// data and is valid only during the call that receives it.
class VMART_EXPORT Snapshot {
 public:
  /// Requires: they are `ChunkTables`.
  explicit Snapshot(const SnapshotTables& tables) noexcept : tables_(&tables) {}

  Time now() const noexcept { return tables_->now_; }
  /// Indexed by ChunkId; rows without a chunk have `bytes` 0.
  std::span<const ChunkRow> chunks() const noexcept { return tables_->rows_; }
  const ChunkRow& chunk(ChunkId chunk) const { return tables_->rows_[index(chunk)]; }
  /// Chunks that were created, used, moved or hinted at since the last tick, each once.
  std::span<const ChunkId> changed() const noexcept { return tables_->changed_; }
  std::span<const PlaceState> places() const noexcept { return tables_->places_; }
  const PlaceState& place(PlaceId place) const { return tables_->places_[index(place)]; }
  const MachineCosts& costs() const noexcept { return tables_->costs_; }
  /// Bytes per second that `device` accesses at `at`, by the short average.
  double demand(PlaceId device, PlaceId at) const;

  /// Decayed to now. Zero for a GPU that has not used the chunk.
  Heat heat(ChunkId chunk, PlaceId device) const;
  /// Sum over all GPUs.
  Heat total_heat(ChunkId chunk) const;
  /// Calls `body` for every GPU that has used the chunk, in unspecified order.
  template <typename Body>  // body(PlaceId device, const Heat&)
  void for_each_user(ChunkId chunk, Body&& body) const {
    const ChunkRow& row = this->chunk(chunk);
    for (std::uint32_t number = row.users; number-- > 0;) {
      const User user = user_at(row.heat + number);
      body(user.device, user.heat);
    }
  }
  /// Bytes per second of all GPUs, by the short average at the time of each GPU's last use. An
  /// upper bound for the current value, and cheaper because nothing is decayed.
  double demand_most(ChunkId chunk) const;
  /// Prefetches the users of the chunk into the CPU cache.
  void prepare(ChunkId chunk) const;
  /// Null if there is none or it has expired. Its times count from the clock's start.
  const Hint* hint(ChunkId chunk) const;
  std::string_view tag(ChunkId chunk) const;
  /// Whether every GPU that may use the chunk could reach it at `place`, as far as the runtime
  /// knows. Moves to other places are refused as `unreachable`.
  bool may_lie(ChunkId chunk, PlaceId place) const;
  /// The rows of one allocation are adjacent. Returns the first of them.
  ChunkId first_of(ChunkId chunk) const {
    return ChunkId{static_cast<std::uint32_t>(chunk) - chunks()[index(chunk)].slot};
  }

  /// Seconds of access per second that the use of `chunk` would cost if it lay at `at`; by the
  /// short and the long average.
  double access_load_short(ChunkId chunk, PlaceId at) const;
  double access_load_long(ChunkId chunk, PlaceId at) const;

 private:
  struct User {
    PlaceId device{};
    Heat heat;
  };
  User user_at(std::uint32_t cell) const;
  const SnapshotTables* tables_;
};

}  // namespace vma::inline v1
