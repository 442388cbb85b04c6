#include "placement/books/chunk_tables.hpp"

#include "base/check.hpp"
#include "base/units.hpp"
#include "base/vectors.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <new>
#include <numbers>
#include <utility>

namespace vma {
inline namespace v1 {
namespace {

constexpr std::size_t tags_max = UINT16_MAX;

}  // namespace

ChunkTables::ChunkTables(std::vector<PlaceState> places, MachineCosts costs,
                         const HeatLimits& limits)
    : SnapshotTables(std::move(places), std::move(costs)),
      short_(limits.half_life_short),
      long_(limits.half_life_long),
      idle_(places_.size()),
      heat_(limits.cells_max),
      tags_(1) {
  VMART_CHECK(places_.size() == costs_.places(), "the costs are those of these places");
  demands_.resize(costs_.gpus() * places_.size());
  tag_numbers_.emplace("", std::uint16_t{0});
  costs_.rank();
}

ChunkTables::Average::Average(Time half_life)
    : half_life_s(in_seconds(half_life)), weight(std::numbers::ln2 / half_life_s) {}

double ChunkTables::Average::fading(Time passed) const {
  if (passed <= Time::zero()) return 1;
  return std::exp2(-in_seconds(passed) / half_life_s);
}

void ChunkTables::set_now(Time now) {
  now_ = std::max(now_, now);
  update_demands();
}

// --- Rows

/// The smallest sufficient run of free rows, otherwise new ones.
std::uint32_t ChunkTables::take_rows(std::size_t count) {
  const auto wanted = static_cast<std::uint32_t>(count);
  const auto found = free_by_size_.lower_bound({wanted, 0});
  if (found == free_by_size_.end()) {
    const auto first = static_cast<std::uint32_t>(rows_.size());
    make_room(changed_, rows_.size() + count);
    idle_.make_room(rows_.size() + count);
    rows_.resize(rows_.size() + count);
    return first;
  }
  const auto [size, first] = *found;
  auto by_size = free_by_size_.extract(found);
  auto row = free_rows_.extract(first);
  if (size > wanted) {
    row.key() = first + wanted;
    row.mapped() = size - wanted;
    by_size.value() = {size - wanted, first + wanted};
    free_rows_.insert(std::move(row));
    free_by_size_.insert(std::move(by_size));
  }
  return first;
}

/// Without memory to list them, the rows are not used again.
void ChunkTables::give_rows(std::uint32_t first, std::size_t count) noexcept {
  auto size = static_cast<std::uint32_t>(count);
  auto after = free_rows_.lower_bound(first);
  if (after != free_rows_.end() && after->first == first + size) {
    size += after->second;
    free_by_size_.erase({after->second, after->first});
    after = free_rows_.erase(after);
  }
  if (after != free_rows_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == first) {
      first = before->first;
      size += before->second;
      free_by_size_.erase({before->second, before->first});
      free_rows_.erase(before);
    }
  }
  try {
    const auto row = free_rows_.emplace(first, size).first;
    try {
      free_by_size_.emplace(size, first);
    } catch (const std::bad_alloc&) {
      free_rows_.erase(row);
    }
  } catch (const std::bad_alloc&) {
  }
}

std::uint16_t ChunkTables::tag_number(std::string_view tag) {
  const auto known = tag_numbers_.find(tag);
  if (known != tag_numbers_.end()) return known->second;
  if (tags_.size() >= tags_max) return 0;  // Bounded: later tags are not stored here.
  const auto number = static_cast<std::uint16_t>(tags_.size());
  make_room(tags_, tags_.size() + 1);
  std::string text(tag);
  tag_numbers_.emplace(tag, number);
  tags_.push_back(std::move(text));
  return number;
}

ChunkId ChunkTables::add(std::uint32_t allocation, std::string_view tag,
                         std::span<const NewChunk> chunks) {
  const std::uint16_t tag_id = tag_number(tag);
  const std::uint32_t first = take_rows(chunks.size());  // Nothing below allocates.
  for (std::size_t slot = 0; slot < chunks.size(); ++slot) {
    ChunkRow& row = rows_[first + slot];
    const bool listed = row.changed;  // As a removed chunk.
    row = ChunkRow{};
    row.changed = listed;
    row.bytes = chunks[slot].bytes;
    row.at = chunks[slot].at;
    row.born = now_;
    row.allocation = allocation;
    row.slot = static_cast<std::uint32_t>(slot);
    row.tag = tag_id;
    places_[index(row.at)].used_bytes += row.bytes;
    if (first + slot < reach_.size()) reach_[first + slot] = 0;
    const ChunkId chunk{static_cast<std::uint32_t>(first + slot)};
    idle_.used(chunk, row.at);
    touch(chunk);
  }
  count_ += chunks.size();
  return ChunkId{first};
}

void ChunkTables::remove(ChunkId first, std::size_t chunks) noexcept {
  for (std::size_t i = 0; i < chunks; ++i) {
    const ChunkId chunk{static_cast<std::uint32_t>(index(first) + i)};
    ChunkRow& row = rows_[index(chunk)];
    VMART_CHECK(row.bytes > 0, "only added chunks are removed");
    shift_demand(row, -1);
    heat_.drop(row);
    forget_hint(chunk);
    if (!row.dropped) {
      places_[index(row.at)].used_bytes -= row.bytes;
      idle_.left(chunk, row.at, rows_);
    }
    const bool listed = row.changed;
    row = ChunkRow{};
    row.changed = listed;  // It stays in the list until that is cleared.
  }
  count_ -= chunks;
  give_rows(static_cast<std::uint32_t>(first), chunks);
}

void ChunkTables::moved(ChunkId chunk, PlaceId to) noexcept {
  ChunkRow& row = rows_[index(chunk)];
  if (row.at == to) return;
  shift_demand(row, -1);
  if (!row.dropped) {
    places_[index(row.at)].used_bytes -= row.bytes;
    places_[index(to)].used_bytes += row.bytes;
    idle_.left(chunk, row.at, rows_);
    idle_.arrived(chunk, to, rows_);
  }
  row.at = to;
  shift_demand(row, 1);
  row.last_move = now_;
  ++row.generation;
  touch(chunk);
}

std::uint32_t ChunkTables::reach_number(const std::vector<bool>& places) {
  VMART_CHECK(places.size() == places_.size(), "one answer per place");
  if (std::ranges::all_of(places, [](bool reached) { return reached; })) return 0;
  const auto known = reach_numbers_.find(places);
  if (known != reach_numbers_.end()) return known->second;
  make_room(reaches_, reaches_.size() + 1);
  std::vector<bool> reached = places;
  const auto number = static_cast<std::uint32_t>(reaches_.size());
  reach_numbers_.emplace(places, number);
  reaches_.push_back(std::move(reached));
  return number;
}

void ChunkTables::set_reach(ChunkId chunk, std::uint32_t number) {
  if (reach_.size() <= index(chunk)) {
    if (number == 0) return;
    reach_.resize(rows_.size());
  }
  if (std::exchange(reach_[index(chunk)], number) != number) touch(chunk);
}

void ChunkTables::set_dropped(ChunkId chunk, bool dropped) noexcept {
  ChunkRow& row = rows_[index(chunk)];
  if (row.dropped == dropped) return;
  row.dropped = dropped;
  touch(chunk);
  if (!dropped) {
    places_[index(row.at)].used_bytes += row.bytes;
    idle_.arrived(chunk, row.at, rows_);
    return;
  }
  places_[index(row.at)].used_bytes -= row.bytes;
  idle_.left(chunk, row.at, rows_);
  shift_demand(row, -1);
  heat_.drop(row);
}

void ChunkTables::expect(PlaceId at, std::uint64_t bytes) noexcept {
  places_[index(at)].used_bytes += bytes;
}

void ChunkTables::expect_no_more(PlaceId at, std::uint64_t bytes) noexcept {
  VMART_CHECK(places_[index(at)].used_bytes >= bytes, "expected bytes count as used");
  places_[index(at)].used_bytes -= bytes;
}

void ChunkTables::touch(ChunkId chunk) noexcept {
  ChunkRow& row = rows_[index(chunk)];
  if (row.changed) return;
  changed_.push_back(chunk);
  row.changed = true;
}

void ChunkTables::clear_changed() noexcept {
  for (const ChunkId chunk : changed_) rows_[index(chunk)].changed = false;
  changed_.clear();
}

// --- Heat

void ChunkTables::set_passed(Fading& fading, Time passed) const {
  if (fading.passed == passed) return;
  fading = {passed, short_.fading(passed), long_.fading(passed)};
}

Heat ChunkTables::decayed(const HeatCell& cell, const Fading& fading) {
  return {cell.read_short * fading.short_term, cell.read_long * fading.long_term,
          cell.write_short * fading.short_term, cell.write_long * fading.long_term};
}

/// Many threads may read, so each remembers its own answers.
Heat ChunkTables::decayed(const HeatCell& cell) const {
  thread_local Fadings fadings;
  fadings.answer_for(short_.half_life_s, long_.half_life_s);
  Fading& fading = fadings.of(now_ - cell.updated);
  set_passed(fading, now_ - cell.updated);
  return decayed(cell, fading);
}

void ChunkTables::used(ChunkId chunk, PlaceId device, double bytes_read, double bytes_written) {
  ChunkRow& row = rows_[index(chunk)];
  if (row.dropped) return;
  if (last_use_of(row) != now_) {
    idle_.left(chunk, row.at, rows_);
    idle_.used(chunk, row.at);
  }
  row.last_use = now_;
  touch(chunk);
  HeatCell* const found = heat_.find_or_make(row, device, now_);
  if (found == nullptr) {
    ++uses_lost_;
    return;
  }
  HeatCell& cell = *found;
  const Time passed = now_ - cell.updated;
  Fading& fading = fadings_.of(passed);
  set_passed(fading, passed);
  const Heat heat = decayed(cell, fading);
  cell.read_short = static_cast<float>(heat.read_short + bytes_read * short_.weight);
  cell.read_long = static_cast<float>(heat.read_long + bytes_read * long_.weight);
  cell.write_short = static_cast<float>(heat.write_short + bytes_written * short_.weight);
  cell.write_long = static_cast<float>(heat.write_long + bytes_written * long_.weight);
  cell.updated = now_;
  demands_[index(device) * places_.size() + index(row.at)] +=
      (bytes_read + bytes_written) * short_.weight;
}

/// All averages fade alike, and so do their sums: one multiplication per pair updates them.
void ChunkTables::update_demands() {
  set_passed(demand_fading_, now_ - demands_at_);
  demands_at_ = now_;
  const double left = demand_fading_.short_term;
  const std::size_t places = places_.size();
  for (std::size_t at = 0; at < places; ++at) {
    double sum = 0;
    for (std::size_t pair = at; pair < demands_.size(); pair += places) {
      demands_[pair] *= left;
      sum += demands_[pair];
    }
    places_[at].demand_bytes_s = sum;
  }
}

void ChunkTables::shift_demand(const ChunkRow& row, double sign) noexcept {
  for (const HeatCell& cell : heat_.of(row)) {
    double& demand = demands_[index(cell.device) * places_.size() + index(row.at)];
    demand = std::max(0.0, demand + sign * decayed(cell).short_term());
  }
}

double ChunkTables::demand(PlaceId device, PlaceId at) const {
  return demands_[index(device) * places_.size() + index(at)];
}

// --- Hints

void ChunkTables::hinted(ChunkId chunk, const Hint& hint) {
  ChunkRow& row = rows_[index(chunk)];
  if (row.hint == ChunkRow::none) {
    if (free_hints_.empty()) {
      make_room(free_hints_, hints_.size() + 1);
      hints_.emplace_back();
      row.hint = static_cast<std::uint32_t>(hints_.size() - 1);
    } else {
      row.hint = free_hints_.back();
      free_hints_.pop_back();
    }
  }
  hints_[row.hint] = hint;
  touch(chunk);
}

void ChunkTables::forget_hint(ChunkId chunk) noexcept {
  ChunkRow& row = rows_[index(chunk)];
  if (row.hint == ChunkRow::none) return;
  free_hints_.push_back(row.hint);
  row.hint = ChunkRow::none;
}

// --- Size, truth

void ChunkTables::make_room_in_lists() {
  make_room(changed_, rows_.size());
  make_room(free_hints_, hints_.size());
  heat_.make_room_for_runs();
}

std::size_t ChunkTables::table_bytes() const noexcept {
  return rows_.capacity() * sizeof(ChunkRow) + changed_.capacity() * sizeof(ChunkId) +
         idle_.bytes() + hints_.capacity() * sizeof(Hint) + reach_.capacity() * sizeof(reach_[0]);
}

std::size_t ChunkTables::heat_bytes() const noexcept {
  return heat_.bytes();
}

void ChunkTables::check_invariants() const {
  std::vector<std::uint64_t> used(places_.size());
  std::size_t count = 0, changed = 0;
  for (const ChunkRow& row : rows_) {
    if (row.changed) ++changed;
    if (row.bytes == 0) {
      VMART_CHECK(row.users == 0, "a free row has no heat");
      continue;
    }
    ++count;
    if (row.dropped) {
      VMART_CHECK(row.users == 0, "a chunk without memory has no heat");
      continue;
    }
    used[index(row.at)] += row.bytes;
  }
  VMART_CHECK(count == count_, "rows with a chunk are counted");
  VMART_CHECK(changed == changed_.size(), "chunks marked as changed are in the list");
  for (std::size_t at = 0; at < places_.size(); ++at) {
    VMART_CHECK(places_[at].used_bytes >= used[at], "a place's usage is the sum of its rows");
    std::uint64_t walked = 0;
    Time last_use{0};
    IdleOrder::Walk walk(idle_, PlaceId{static_cast<std::uint8_t>(at)}, rows_);
    while (const auto chunk = walk.next()) {
      const ChunkRow& row = rows_[index(*chunk)];
      VMART_CHECK(index(row.at) == at && !row.dropped, "a place's order has what lies there");
      VMART_CHECK(last_use_of(row) >= last_use, "the order is by the last use");
      last_use = last_use_of(row);
      walked += row.bytes;
    }
    VMART_CHECK(walked == used[at], "a place's order has all that lies there, each once");
  }
}

}  // namespace v1
}  // namespace vma
