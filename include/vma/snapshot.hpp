#pragma once

#include <vma/export.hpp>
#include <vma/location.hpp>
#include <vma/telemetry.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma::inline v1 {

/// Since the start of the runtime's clock.
using Time = std::chrono::nanoseconds;

/// Index into `Snapshot::places`. A GPU that uses memory is named by the place of its HBM.
enum class PlaceId : std::uint8_t {};
constexpr std::size_t index(PlaceId place) {
  return static_cast<std::size_t>(place);
}
/// Index into `Snapshot::chunks`. A number is used again after its chunk is gone.
enum class ChunkId : std::uint32_t {};
constexpr std::size_t index(ChunkId chunk) {
  return static_cast<std::size_t>(chunk);
}

/// One chunk, as the scheduler sees it. 56 bytes.
struct ChunkRow {
  static constexpr std::uint32_t none = UINT32_MAX;

  std::uint64_t bytes = 0;                  ///< 0: there is no chunk of this number.
  Time born{0}, last_use{0}, last_move{0};  ///< 0: not yet.
  std::uint32_t allocation = 0;  ///< Equal for chunks of one; numbered in the order they came in.
  std::uint32_t slot = 0;        ///< Which chunk of the allocation.
  std::uint32_t heat = none;     ///< `Snapshot` knows.
  std::uint32_t hint = none;     ///< `Snapshot` knows.
  std::uint16_t generation = 0;  ///< Grows with each move, and begins anew.
  std::uint16_t tag = 0;         ///< `Snapshot` knows.
  PlaceId at{};
  std::uint8_t recent_moves = 0;  ///< Within the window of the planner's safety rules.
  std::uint8_t users = 0;         ///< GPUs that have used it.
  bool movable : 1 = true;        ///< Nothing pins it.
  bool in_scope : 1 = true;       ///< A stream is attached that may use it, so it can move now.
  bool moving : 1 = false;        ///< A move of it is planned or under way.
  bool parked : 1 = false;        ///< Put away by its tag; it comes back by that only.
  bool changed : 1 = false;       ///< It is in `Snapshot::changed`.
  bool dropped : 1 = false;       ///< It has no memory and fills no place; `at` is where it lay.
};
static_assert(sizeof(ChunkRow) == 56);

/// How much one GPU uses one chunk: bytes a second, averaged with a short and a long half-life.
struct Heat {
  double read_short = 0, read_long = 0, write_short = 0, write_long = 0;
  double short_term() const { return read_short + write_short; }
  double long_term() const { return read_long + write_long; }
};

/// A GPU's HBM or a host node.
struct PlaceState {
  Location location;
  std::uint64_t capacity_bytes = 0;  ///< That chunks may fill.
  std::uint64_t used_bytes = 0;      ///< By chunks, and by those that are on their way to it.
  double demand_bytes_s = 0;         ///< Of all GPUs on what lies here, by the short average.
  std::uint64_t free_bytes() const {
    return used_bytes < capacity_bytes ? capacity_bytes - used_bytes : 0;
  }
};

/// What using and moving memory costs on this machine. Rates are bytes a second, 0 where there is
/// no way.
class VMART_EXPORT MachineCosts {
 public:
  /// `gpus` of the places, the first ones, are GPUs.
  MachineCosts(std::size_t gpus, std::size_t places);

  std::size_t gpus() const noexcept { return gpus_; }
  std::size_t places() const noexcept { return places_; }

  double& access_rate(PlaceId device, PlaceId at) { return access_[cell(device, at)]; }
  double access_rate(PlaceId device, PlaceId at) const { return access_[cell(device, at)]; }
  /// Of the first byte, idle.
  Time& access_latency(PlaceId device, PlaceId at) { return latency_[cell(device, at)]; }
  Time access_latency(PlaceId device, PlaceId at) const { return latency_[cell(device, at)]; }
  double& copy_rate(PlaceId from, PlaceId to) { return copy_[cell(from, to)]; }
  double copy_rate(PlaceId from, PlaceId to) const { return copy_[cell(from, to)]; }
  /// Of a move besides its copy: target, grants, switch.
  Time& move_fixed(PlaceId from, PlaceId to) { return fixed_[cell(from, to)]; }
  Time move_fixed(PlaceId from, PlaceId to) const { return fixed_[cell(from, to)]; }
  /// Of a move besides its copy, in seconds: what takes longer for larger chunks.
  double& move_per_byte(PlaceId from, PlaceId to) { return move_byte_[cell(from, to)]; }
  double move_per_byte(PlaceId from, PlaceId to) const { return move_byte_[cell(from, to)]; }
  /// That a program's streams stand still for one chunk; `stall_per_byte` besides, in seconds.
  Time& stall_fixed(PlaceId from, PlaceId to) { return stall_[cell(from, to)]; }
  Time stall_fixed(PlaceId from, PlaceId to) const { return stall_[cell(from, to)]; }
  double& stall_per_byte(PlaceId from, PlaceId to) { return stall_byte_[cell(from, to)]; }
  double stall_per_byte(PlaceId from, PlaceId to) const { return stall_byte_[cell(from, to)]; }

  bool reaches(PlaceId device, PlaceId at) const { return access_rate(device, at) > 0; }
  /// Seconds that `device` takes for `bytes` that lie at `at`; infinite where it cannot reach them.
  double access_seconds(PlaceId device, PlaceId at, double bytes) const;
  /// The whole of a move, by itself.
  Time move_time(PlaceId from, PlaceId to, std::uint64_t bytes) const;
  Time stall_time(PlaceId from, PlaceId to, std::uint64_t bytes) const;
  /// Every place that `device` can reach, the fastest first; its own HBM leads. Requires:
  /// `rank` was called after the last change.
  std::span<const PlaceId> by_speed(PlaceId device) const { return by_speed_[index(device)]; }
  void rank();

 private:
  std::size_t cell(PlaceId row, PlaceId column) const {
    return index(row) * places_ + index(column);
  }
  std::size_t gpus_, places_;
  std::vector<double> access_, copy_, move_byte_, stall_byte_;
  std::vector<Time> latency_, fixed_, stall_;
  std::vector<std::vector<PlaceId>> by_speed_;
};

struct ChunkTables;

/// A frozen view of all chunks, their use and the machine: what a policy decides from. A value that
/// borrows; it stays as it is for the length of the call that hands it out.
class VMART_EXPORT Snapshot {
 public:
  explicit Snapshot(const ChunkTables& tables) noexcept : tables_(&tables) {}

  Time now() const noexcept;
  /// By number; rows without a chunk have `bytes` 0.
  std::span<const ChunkRow> chunks() const noexcept;
  const ChunkRow& chunk(ChunkId chunk) const { return chunks()[index(chunk)]; }
  /// Those that were made, used, moved or hinted at since the last tick, each once.
  std::span<const ChunkId> changed() const noexcept;
  std::span<const PlaceState> places() const noexcept;
  const PlaceState& place(PlaceId place) const { return places()[index(place)]; }
  const MachineCosts& costs() const noexcept;
  /// Bytes a second that `device` asks of what lies at `at`, by the short average.
  double demand(PlaceId device, PlaceId at) const;

  /// Decayed to now. Zero for a GPU that has not used it.
  Heat heat(ChunkId chunk, PlaceId device) const;
  /// Of all GPUs.
  Heat total_heat(ChunkId chunk) const;
  /// Every GPU that has used it, in no order.
  template <typename Body>  // body(PlaceId device, const Heat&)
  void for_each_user(ChunkId chunk, Body&& body) const {
    const ChunkRow& row = this->chunk(chunk);
    for (std::uint32_t number = row.users; number-- > 0;) {
      const User user = user_at(row.heat + number);
      body(user.device, user.heat);
    }
  }
  /// Bytes a second of all GPUs, by the short average as it was when each last used it: no less
  /// than now, and found without any fading.
  double demand_most(ChunkId chunk) const;
  /// For the processor: the users of the chunk are about to be asked for.
  void prepare(ChunkId chunk) const;
  /// Null without one, and once it has run out. Its times are since the clock's start.
  const Hint* hint(ChunkId chunk) const;
  std::string_view tag(ChunkId chunk) const;
  /// Whether every GPU that may use the chunk could reach it at `place`, as far as the runtime
  /// knows. Moves to other places are refused as `unreachable`.
  bool may_lie(ChunkId chunk, PlaceId place) const;
  /// The rows of one allocation are neighbours: the first of them.
  ChunkId first_of(ChunkId chunk) const {
    return ChunkId{static_cast<std::uint32_t>(chunk) - chunks()[index(chunk)].slot};
  }

  /// Seconds of access a second that the use of `chunk` costs, lay it at `at`; by the short and the
  /// long average.
  double access_load_short(ChunkId chunk, PlaceId at) const;
  double access_load_long(ChunkId chunk, PlaceId at) const;

 private:
  struct User {
    PlaceId device{};
    Heat heat;
  };
  User user_at(std::uint32_t cell) const;
  const ChunkTables* tables_;
};

}  // namespace vma::inline v1
