#pragma once

#include <vma/snapshot.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma::inline v1 {

/// How much one GPU uses one chunk: averages at the time of the last use.
struct HeatCell {
  float read_short = 0, read_long = 0, write_short = 0, write_long = 0;  // Bytes/s at `updated`.
  Time updated{0};
  PlaceId device{};
};
static_assert(sizeof(HeatCell) == 32);

/// The cells of all chunks. Those of one chunk are adjacent, in the order of first use, so that
/// reading all users of a chunk waits for memory once. A run of cells has a power of two of them; a
/// chunk that outgrows its run gets one of twice the size. `ChunkRow::heat` and `users` say where a
/// chunk's cells are. Not thread-safe.
class HeatCells {
 public:
  /// `cells_max`: cells in use, one for each chunk and GPU. All runs together, including outgrown
  /// ones that are free for reuse, have at most four times as many.
  explicit HeatCells(std::size_t cells_max) : cells_max_(cells_max) {}

  std::span<const HeatCell> of(const ChunkRow& row) const {
    return std::span(cells_).subspan(row.users == 0 ? 0 : row.heat, row.users);
  }
  const HeatCell& at(std::uint32_t cell) const { return cells_[cell]; }
  /// The cell of a GPU, created at its first use; null if there is no room. Valid until the next
  /// one is created.
  HeatCell* find_or_make(ChunkRow& row, PlaceId device, Time now);
  /// Prefetch: the cells are about to be read.
  void prepare(const ChunkRow& row) const {
    for (std::uint32_t cell = 0; cell < row.users; cell += cells_a_line)
      __builtin_prefetch(&cells_[row.heat + cell]);
  }
  void drop(ChunkRow& row) noexcept;
  /// For a copy, which has no room to take back its runs, so that `drop` does not allocate.
  void make_room_for_runs();

  std::size_t bytes() const noexcept { return cells_.capacity() * sizeof(HeatCell); }

 private:
  static constexpr std::uint32_t cells_a_line = 64 / sizeof(HeatCell);  // In a cache line.
  static constexpr std::size_t sizes = 9;  // 2^0 to 2^8: a byte counts the GPUs.

  std::uint32_t take_run(std::size_t size);
  void give_run(const ChunkRow& row) noexcept;

  std::size_t cells_max_;
  std::size_t used_ = 0;
  std::vector<HeatCell> cells_;
  // By the logarithm of the size, with room for all runs of that size.
  std::array<std::vector<std::uint32_t>, sizes> free_runs_;
  std::array<std::size_t, sizes> runs_{};
};

}  // namespace vma::inline v1
