#pragma once

#include "placement/books/heat_cells.hpp"
#include "placement/books/idle_order.hpp"

#include <vma/snapshot.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vma {
inline namespace v1 {

/// How long past use counts, and how many averages are kept.
struct HeatLimits {
  Time half_life_short = std::chrono::seconds(1);
  Time half_life_long = std::chrono::seconds(10);
  std::size_t cells_max = std::size_t{1} << 22;  ///< One for each chunk and GPU; 32 bytes each.
};

/// What a `Snapshot` shows: the books of the scheduler, updated by its calls. They know no driver.
/// Not thread-safe; a copy is independent, and many threads may read while none writes.
///
/// Only `add`, `hinted`, `used`, `reach_number` and `set_reach` allocate, and if one of these
/// throws std::bad_alloc, the chunks are as before.
///
/// Rows of one allocation are adjacent. Heat is kept per chunk and GPU, sparsely: each use decays
/// the former value and adds to it, so that unused chunks cost nothing.
/// One owner: the tables of one Snapshot; a call changes several of them, or none if it throws.
struct ChunkTables : public SnapshotTables {
 public:
  ChunkTables(std::vector<PlaceState> places, MachineCosts costs, const HeatLimits& limits = {});

  /// Time only rises.
  void set_now(Time now);
  Time now() const noexcept { return now_; }

  struct NewChunk {
    std::uint64_t bytes = 0;
    PlaceId at{};
  };
  /// Returns the first of the rows. `allocation` is larger than all numbers passed before.
  ChunkId add(std::uint32_t allocation, std::string_view tag, std::span<const NewChunk> chunks);
  /// Forgets the rows of an allocation; their numbers may be used again.
  void remove(ChunkId first, std::size_t chunks) noexcept;
  /// The chunk is at `to` now.
  void moved(ChunkId chunk, PlaceId to) noexcept;
  /// A dropped chunk takes no room, and is not used: its heat is forgotten.
  void set_dropped(ChunkId chunk, bool dropped) noexcept;
  /// A number for a set of places, given by place. Equal sets have the same number.
  std::uint32_t reach_number(const std::vector<bool>& places);
  /// The only places where all users of the chunk can reach it; for a new chunk, all places.
  void set_reach(ChunkId chunk, std::uint32_t number);
  /// Bytes on their way to a place count as used there until `expect_no_more`.
  void expect(PlaceId at, std::uint64_t bytes) noexcept;
  void expect_no_more(PlaceId at, std::uint64_t bytes) noexcept;
  void used(ChunkId chunk, PlaceId device, double bytes_read, double bytes_written);
  /// Prefetch: `prepare_use` is about to be called.
  void prepare_row(ChunkId chunk) const {
    const ChunkRow& row = rows_[index(chunk)];
    __builtin_prefetch(&row, 1);
    __builtin_prefetch(&row.users, 1);  // It may be in the next cache line.
    idle_.prepare(chunk);
  }
  /// Prefetch: `used` is about to be called.
  void prepare_use(ChunkId chunk) const {
    prepare_users(chunk);
    idle_.prepare_use(chunk);
  }
  /// Prefetch: the users are about to be read.
  void prepare_users(ChunkId chunk) const { heat_.prepare(rows_[index(chunk)]); }
  /// The hint's times are relative to the clock's start.
  void hinted(ChunkId chunk, const Hint& hint);
  void forget_hint(ChunkId chunk) noexcept;
  /// Flags and `recent_moves` belong to the scheduler, which calls `touch` for relevant changes.
  ChunkRow& row(ChunkId chunk) { return rows_[index(chunk)]; }
  void touch(ChunkId chunk) noexcept;
  /// The changes were reported; the list starts anew.
  void clear_changed() noexcept;
  void set_capacity(PlaceId at, std::uint64_t bytes) { places_[index(at)].capacity_bytes = bytes; }
  MachineCosts& costs() noexcept { return costs_; }
  /// The chunks that have memory, by when they were used last, or else made.
  const IdleOrder& idle() const noexcept { return idle_; }
  /// For a copy, whose lists have no room: from here on, it allocates only where the original does.
  void make_room_in_lists();

  /// Uses that found no free cell, since the start.
  std::uint64_t uses_lost() const noexcept { return uses_lost_; }
  /// Bytes that the rows and lists take, without heat; and those of heat.
  std::size_t table_bytes() const noexcept;
  std::size_t heat_bytes() const noexcept;
  std::size_t size() const noexcept { return count_; }

  /// Checks that places hold what their chunks' rows say, and that lists and flags agree. For
  /// tests.
  void check_invariants() const;

 private:
  friend class Snapshot;
  std::uint32_t take_rows(std::size_t count);
  void give_rows(std::uint32_t first, std::size_t count) noexcept;
  std::uint16_t tag_number(std::string_view tag);
  void shift_demand(const ChunkRow& row, double sign) noexcept;

  /// What remains of averages after a time.
  struct Fading {
    Time passed = Time::min();
    double short_term = 0, long_term = 0;
  };
  /// Remembers recent answers: many cells are of the same age.
  class Fadings {
   public:
    /// Forgets the answers for averages with other half-lives.
    void answer_for(double short_s, double long_s) {
      if (short_s == short_s_ && long_s == long_s_) return;
      *this = Fadings();
      short_s_ = short_s;
      long_s_ = long_s;
    }
    /// The place of the answer for this time.
    Fading& of(Time passed) {
      // The high bits of the product depend on all of its bits (Fibonacci hashing).
      return answers_[static_cast<std::uint64_t>(passed.count()) * 0x9E3779B97F4A7C15u >> 58];
    }

   private:
    double short_s_ = 0, long_s_ = 0;  // Half-lives.
    std::array<Fading, 64> answers_;
  };

  Heat decayed(const HeatCell& cell) const;
  static Heat decayed(const HeatCell& cell, const Fading& fading);
  double demand(PlaceId device, PlaceId at) const;
  void update_demands();

  /// How time and new bytes change an average.
  struct Average {
    double half_life_s = 0;
    double weight = 0;  // What one byte adds now to an average in bytes a second.
    explicit Average(Time half_life);
    double fading(Time passed) const;  // The share that remains.
  };
  void set_passed(Fading& fading, Time passed) const;

  Average short_, long_;
  Fadings fadings_;       // Of cells that were used.
  Fading demand_fading_;  // Of the demands.
  std::size_t count_ = 0;
  std::vector<std::uint32_t> reach_;  // By row, up to the last one that was set. 0: every place.
  std::vector<std::vector<bool>> reaches_{1};
  std::map<std::vector<bool>, std::uint32_t> reach_numbers_;

  std::map<std::uint32_t, std::uint32_t> free_rows_;  // First to count; never adjacent.
  std::set<std::pair<std::uint32_t, std::uint32_t>> free_by_size_;  // Count and first.
  IdleOrder idle_;
  HeatCells heat_;
  std::vector<Hint> hints_;
  std::vector<std::uint32_t> free_hints_;  // With room for all hints.
  std::vector<std::string> tags_;
  std::map<std::string, std::uint16_t, std::less<>> tag_numbers_;
  std::vector<double> demands_;  // [device][place], at `demands_at_`.
  Time demands_at_{0};
  std::uint64_t uses_lost_ = 0;
};

}  // namespace v1
}  // namespace vma
