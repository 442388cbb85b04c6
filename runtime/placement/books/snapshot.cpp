#include "placement/books/chunk_tables.hpp"

#include <vma/policy.hpp>
#include <vma/snapshot.hpp>

#include <algorithm>

namespace vma::inline v1 {

MachineCosts::MachineCosts(std::size_t gpus, std::size_t places) : gpus_(gpus), places_(places) {
  const std::size_t cells = places * places;
  access_.resize(cells);
  copy_.resize(cells);
  move_byte_.resize(cells);
  stall_byte_.resize(cells);
  latency_.resize(cells);
  fixed_.resize(cells);
  stall_.resize(cells);
  by_speed_.resize(gpus);
}

Time MachineCosts::move_time(PlaceId from, PlaceId to, std::uint64_t bytes) const {
  const double rate = copy_rate(from, to);
  if (rate <= 0) return Time::max();
  return move_fixed(from, to) +
         std::chrono::duration_cast<Time>(std::chrono::duration<double>(
             static_cast<double>(bytes) * (1 / rate + move_per_byte(from, to))));
}

Time MachineCosts::stall_time(PlaceId from, PlaceId to, std::uint64_t bytes) const {
  return stall_fixed(from, to) + std::chrono::duration_cast<Time>(std::chrono::duration<double>(
                                     static_cast<double>(bytes) * stall_per_byte(from, to)));
}

void MachineCosts::rank() {
  for (std::size_t gpu = 0; gpu < gpus_; ++gpu) {
    const PlaceId device{static_cast<std::uint8_t>(gpu)};
    std::vector<PlaceId>& ranked = by_speed_[gpu];
    ranked.clear();
    for (std::size_t at = 0; at < places_; ++at) {
      if (reaches(device, PlaceId{static_cast<std::uint8_t>(at)}))
        ranked.push_back(PlaceId{static_cast<std::uint8_t>(at)});
    }
    // Its own HBM comes first, whatever a calibration said; of equals the lowest number.
    std::ranges::stable_sort(ranked, [&](PlaceId left, PlaceId right) {
      if (left == device || right == device) return left == device && right != device;
      return access_rate(device, left) > access_rate(device, right);
    });
  }
}

namespace {

const ChunkTables& books(const SnapshotTables& tables) {
  return static_cast<const ChunkTables&>(tables);
}

}  // namespace

double Snapshot::demand(PlaceId device, PlaceId at) const {
  return books(*tables_).demand(device, at);
}

Snapshot::User Snapshot::user_at(std::uint32_t cell) const {
  const HeatCell& found = books(*tables_).heat_.at(cell);
  return {found.device, books(*tables_).decayed(found)};
}

/// In the order of `for_each_user`, so that no sum of faded values is larger, even by rounding.
double Snapshot::demand_most(ChunkId chunk) const {
  const ChunkRow& row = this->chunk(chunk);
  double most = 0;
  for (std::uint32_t number = row.users; number-- > 0;) {
    const HeatCell& cell = books(*tables_).heat_.at(row.heat + number);
    most += double{cell.read_short} + double{cell.write_short};
  }
  return most;
}

bool Snapshot::may_lie(ChunkId chunk, PlaceId place) const {
  if (index(chunk) >= books(*tables_).reach_.size()) return true;
  const std::uint32_t number = books(*tables_).reach_[index(chunk)];
  return number == 0 || books(*tables_).reaches_[number][index(place)];
}

void Snapshot::prepare(ChunkId chunk) const {
  books(*tables_).prepare_users(chunk);
}

Heat Snapshot::heat(ChunkId chunk, PlaceId device) const {
  Heat heat;
  for_each_user(chunk, [&](PlaceId user, const Heat& its) {
    if (user == device) heat = its;
  });
  return heat;
}

Heat Snapshot::total_heat(ChunkId chunk) const {
  Heat total;
  for_each_user(chunk, [&](PlaceId, const Heat& heat) {
    total.read_short += heat.read_short;
    total.read_long += heat.read_long;
    total.write_short += heat.write_short;
    total.write_long += heat.write_long;
  });
  return total;
}

const Hint* Snapshot::hint(ChunkId chunk) const {
  const std::uint32_t number = tables_->rows_[index(chunk)].hint;
  if (number == ChunkRow::none) return nullptr;
  const Hint& hint = books(*tables_).hints_[number];
  if (hint.until && *hint.until <= tables_->now_) return nullptr;
  return &hint;
}

std::string_view Snapshot::tag(ChunkId chunk) const {
  return books(*tables_).tags_[tables_->rows_[index(chunk)].tag];
}

double Snapshot::access_load_short(ChunkId chunk, PlaceId at) const {
  double load = 0;
  for_each_user(chunk, [&](PlaceId device, const Heat& heat) {
    load += costs().access_seconds(device, at, heat.short_term());
  });
  return load;
}

double Snapshot::access_load_long(ChunkId chunk, PlaceId at) const {
  double load = 0;
  for_each_user(chunk, [&](PlaceId device, const Heat& heat) {
    load += costs().access_seconds(device, at, heat.long_term());
  });
  return load;
}

Policy::~Policy() = default;
void Policy::on_alloc(const AllocRequest&, const Snapshot&, std::span<PlaceId>) {}
void Policy::on_use(const UseEvent&, const Snapshot&, Plan&) {}
void Policy::on_pressure(const Pressure&, const Snapshot&, Plan&) {}
void Policy::on_tick(const Snapshot&, Plan&) {}
void Policy::on_result(const MoveResult&, const Snapshot&) {}
void Policy::on_gone(ChunkId) {}
void Policy::prepare(ChunkId) const {}

}  // namespace vma::inline v1
