#include "placement/books/heat_cells.hpp"

#include "base/vectors.hpp"

#include <algorithm>
#include <bit>

namespace vma::inline v1 {
namespace {

/// Index of the smallest run that holds `users` cells.
std::size_t size_for(std::size_t users) {
  return static_cast<std::size_t>(std::bit_width(users - 1));
}

}  // namespace

HeatCell* HeatCells::find_or_make(ChunkRow& row, PlaceId device, Time now) {
  const std::span<HeatCell> own =
      std::span(cells_).subspan(row.users == 0 ? 0 : row.heat, row.users);
  const auto known = std::ranges::find(own, device, &HeatCell::device);
  if (known != own.end()) return &*known;
  if (used_ >= cells_max_) return nullptr;
  const std::size_t users = row.users + std::size_t{1};
  if (row.users == 0) {
    row.heat = take_run(0);
  } else if (std::has_single_bit(row.users)) {  // The run is full.
    const std::uint32_t run = take_run(size_for(users));
    std::copy_n(cells_.begin() + row.heat, row.users, cells_.begin() + run);
    give_run(row);
    row.heat = run;
  }
  ++used_;
  HeatCell& cell = cells_[row.heat + row.users];
  row.users = static_cast<std::uint8_t>(users);
  cell = HeatCell{};
  cell.updated = now;
  cell.device = device;
  return &cell;
}

void HeatCells::drop(ChunkRow& row) noexcept {
  if (row.users == 0) return;
  give_run(row);
  used_ -= row.users;
  row.heat = ChunkRow::none;
  row.users = 0;
}

std::uint32_t HeatCells::take_run(std::size_t size) {
  std::vector<std::uint32_t>& free = free_runs_[size];
  if (!free.empty()) {
    const std::uint32_t run = free.back();
    free.pop_back();
    return run;
  }
  make_room(free, runs_[size] + 1);
  const auto run = static_cast<std::uint32_t>(cells_.size());
  cells_.resize(cells_.size() + (std::size_t{1} << size));
  ++runs_[size];
  return run;
}

void HeatCells::give_run(const ChunkRow& row) noexcept {
  free_runs_[size_for(row.users)].push_back(row.heat);
}

void HeatCells::make_room_for_runs() {
  for (std::size_t size = 0; size < sizes; ++size) make_room(free_runs_[size], runs_[size]);
}

}  // namespace vma::inline v1
