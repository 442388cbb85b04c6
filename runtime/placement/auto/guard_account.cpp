#include "placement/auto/guard_account.hpp"

#include "base/units.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vma::inline v1 {
namespace {

// Of the seconds of use: so much of `start` is there. It must not be much of a short program.
constexpr double start_share = 0.05;

}  // namespace

void GuardAccount::used(double seconds, double saved) {
  const double given = std::min(start_left_, start_share * seconds);
  start_left_ -= given;
  const double allowed = given + limits_.allowance * seconds;
  balance_ += saved + allowed;
  earned_ += saved;
  if (!follows_) allowed_ += allowed;
}

void GuardAccount::moved(double seconds) {
  balance_ -= seconds;
  earned_ -= seconds;
}

void GuardAccount::judge(Time now) {
  const double above = balance_ - limits_.start;
  if (above > 0) {
    const double half_lives = in_seconds(now - judged_) / in_seconds(limits_.half_life);
    balance_ = limits_.start + above * std::exp2(-half_lives);
  }
  judged_ = now;
  if (follows_ && earned_ > allowed_) back_off_ = limits_.back_off;
  if (follows_ && balance_ < 0) {
    follows_ = false;
    until_ = now + back_off_;
    back_off_ = std::min(2 * back_off_, limits_.back_off_max);
    allowed_ = 0;
  } else if (!follows_ && now >= until_) {
    follows_ = true;
    balance_ = std::max(balance_, allowed_);
    earned_ = 0;
  }
}

namespace {

// A request whose memory has not appeared by then has failed.
constexpr Time request_most = std::chrono::seconds(10);

}  // namespace

void StaticShadow::asked(const AllocRequest& request, std::span<const PlaceId> chosen,
                         const Snapshot& snapshot) {
  look(snapshot);  // Those before it take their room first.
  LiveAllocations::Allocation allocation;
  allocation.bytes = request.bytes;
  allocation.chunk_bytes = request.chunk_bytes;
  allocation.born = snapshot.now();
  const LiveAllocations::Number number =
      allocations_.add(allocation, request.tag, chosen, snapshot);
  if (number >= asked_by_.size()) asked_by_.resize(number + 1);
  asked_by_[number] = request.device;
}

void StaticShadow::look(const Snapshot& snapshot) {
  const std::span<const ChunkId> changed = snapshot.changed();
  if (changes_seen_ > changed.size()) changes_seen_ = 0;
  for_each_ahead(
      snapshot, changed.subspan(changes_seen_), [&](ChunkId chunk) { prepare(chunk); },
      [](ChunkId) {},
      [&](ChunkId chunk) {
        if (snapshot.chunk(chunk).bytes > 0) at(chunk, snapshot);
      });
  changes_seen_ = changed.size();
}

void StaticShadow::end_tick(const Snapshot& snapshot) {
  look(snapshot);
  changes_seen_ = 0;
  allocations_.end_tick(snapshot);
  allocations_.drop_unseen(snapshot.now() - request_most);
}

PlaceId StaticShadow::at(ChunkId chunk, const Snapshot& snapshot) {
  cells_.resize(std::max(cells_.size(), snapshot.chunks().size()));
  used_.resize(snapshot.places().size());
  Cell& cell = cells_[index(chunk)];
  if (cell.bytes == 0) see_allocation(chunk, snapshot);
  const ChunkRow& row = snapshot.chunk(chunk);
  if (row.at != cell.really_at && !row.dropped) {
    put(cell, row.at);
    cell.really_at = row.at;
  }
  return cell.at;
}

void StaticShadow::see_allocation(ChunkId chunk, const Snapshot& snapshot) {
  const LiveAllocations::Number number = allocations_.find(chunk, snapshot);
  const ChunkId first = snapshot.first_of(chunk);
  const std::uint32_t allocation = snapshot.chunk(chunk).allocation;
  for (std::size_t i = index(first); i < snapshot.chunks().size(); ++i) {
    const ChunkRow& row = snapshot.chunks()[i];
    if (row.bytes == 0 || row.allocation != allocation || row.slot != i - index(first)) return;
    Cell& cell = cells_[i];
    if (cell.bytes != 0) continue;
    cell.really_at = row.at;
    cell.at =
        number == LiveAllocations::none ? row.at : first_touch(asked_by_[number], row, snapshot);
    cell.bytes = row.bytes;
    used_[index(cell.at)] += cell.bytes;
  }
}

PlaceId StaticShadow::first_touch(PlaceId device, const ChunkRow& row,
                                  const Snapshot& snapshot) const {
  for (const PlaceId at : snapshot.costs().by_speed(device)) {
    if (used_[index(at)] + row.bytes <= snapshot.place(at).capacity_bytes) return at;
  }
  return row.at;
}

void StaticShadow::put(Cell& cell, PlaceId at) {
  used_[index(cell.at)] -= cell.bytes;
  used_[index(at)] += cell.bytes;
  cell.at = at;
}

void StaticShadow::moved_by_policy(const MoveResult& result) {
  if (!result.moved || index(result.chunk) >= cells_.size()) return;
  cells_[index(result.chunk)].really_at = result.to;
}

void StaticShadow::gone(ChunkId chunk) {
  const LiveAllocations::Number number = allocations_.gone(chunk);
  if (number != LiveAllocations::none) allocations_.forget(number);
  if (index(chunk) >= cells_.size()) return;
  Cell& cell = cells_[index(chunk)];
  if (cell.bytes > 0) used_[index(cell.at)] -= cell.bytes;
  cell = {};
}

}  // namespace vma::inline v1
