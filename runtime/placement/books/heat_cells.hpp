#pragma once

#include <vma/snapshot.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma::inline v1 {

/// How much one GPU uses one chunk: averages as they were when it was last used.
struct HeatCell {
  float read_short = 0, read_long = 0, write_short = 0, write_long = 0;  // Bytes/s at `updated`.
  Time updated{0};
  PlaceId device{};
};
static_assert(sizeof(HeatCell) == 32);

/// The cells of all chunks. Those of one chunk are neighbours, in the order of first use, so that
/// who asks for all users of a chunk waits for memory once. A run of cells has a power of two of
/// them; a chunk that outgrows its own gets one of twice the size. `ChunkRow::heat` and `users` say
/// where a chunk's cells are. Not thread-safe.
class HeatCells {
 public:
  /// `cells_max`: of a chunk and a GPU each, in use. All runs together, those that chunks have
  /// outgrown and others may take among them, have at most four times as many.
  explicit HeatCells(std::size_t cells_max) : cells_max_(cells_max) {}

  std::span<const HeatCell> of(const ChunkRow& row) const {
    return std::span(cells_).subspan(row.users == 0 ? 0 : row.heat, row.users);
  }
  const HeatCell& at(std::uint32_t cell) const { return cells_[cell]; }
  /// The cell of a GPU, made at its first use; null if there is no room. Valid until the next one
  /// is made.
  HeatCell* find_or_make(ChunkRow& row, PlaceId device, Time now);
  /// For the processor: the cells are about to be read.
  void prepare(const ChunkRow& row) const {
    for (std::uint32_t cell = 0; cell < row.users; cell += cells_a_line)
      __builtin_prefetch(&cells_[row.heat + cell]);
  }
  void drop(ChunkRow& row);

  std::size_t bytes() const noexcept { return cells_.capacity() * sizeof(HeatCell); }

 private:
  static constexpr std::uint32_t cells_a_line = 64 / sizeof(HeatCell);  // Of the processor's cache.
  static constexpr std::size_t sizes = 9;  // 2^0 to 2^8: a byte counts the GPUs.

  std::uint32_t take_run(std::size_t size);
  void give_run(const ChunkRow& row);

  std::size_t cells_max_;
  std::size_t used_ = 0;
  std::vector<HeatCell> cells_;
  std::array<std::vector<std::uint32_t>, sizes> free_runs_;  // By the logarithm of their size.
};

}  // namespace vma::inline v1
