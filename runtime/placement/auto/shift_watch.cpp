#include "placement/auto/shift_watch.hpp"

#include <algorithm>

namespace vma::inline v1 {

void FollowedShifts::propose(const UseShifts::Shift& shift, PlaceId to, double owed) {
  if (index(shift.chunk) >= chunks_.size()) chunks_.resize(index(shift.chunk) + 1);
  std::unique_ptr<Followed>& its = chunks_[index(shift.chunk)];
  if (its == nullptr) {
    its = std::make_unique<Followed>();
    ++count_;
  }
  its->proposed = {shift.at, to, shift.begin, owed, shift.users};
}

void FollowedShifts::forget(ChunkId chunk) {
  if (find(chunk) == nullptr) return;
  chunks_[index(chunk)].reset();
  --count_;
}

void FollowedShifts::moved(const MoveResult& result, Time now) {
  Followed* const found = find(result.chunk);
  if (found == nullptr || !result.moved) return;
  Followed& its = *found;
  its.made_it = its.open = result.from == its.proposed.from && result.to == its.proposed.to;
  if (!its.made_it) return;
  its.made = its.proposed;
  its.since = its.made.shifted;
  its.moved = now;
  its.saved = 0;
}

/// Whether it still lies where it followed a shift to. Programs may move it, too.
bool FollowedShifts::lies_there(const Followed& its, ChunkId chunk, const Snapshot& snapshot) {
  return its.made_it && snapshot.chunk(chunk).at == its.made.to;
}

/// Whether the averages still contain what was before the shift.
bool FollowedShifts::corrects(const Followed& its, ChunkId chunk, const Snapshot& snapshot) const {
  return lies_there(its, chunk, snapshot) && snapshot.now() < its.moved + settled_after_;
}

void FollowedShifts::note(const UseEvent& use, const Snapshot& snapshot) {
  Followed* const found = find(use.chunk);
  if (found == nullptr || !lies_there(*found, use.chunk, snapshot)) return;
  Followed& its = *found;
  if (corrects(its, use.chunk, snapshot)) add_use(its.made.users, use);
  const MachineCosts& costs = snapshot.costs();
  its.saved += costs.access_seconds(use.device, its.made.from, use.bytes()) -
               costs.access_seconds(use.device, its.made.to, use.bytes());
}

void FollowedShifts::went_back(const UseShifts::Shift& ended) {
  Followed* const found = find(ended.chunk);
  if (found == nullptr) return;
  Followed& its = *found;
  its.stayed = its.since == Time::zero() ? Time::zero() : ended.first - its.since;
  its.since = ended.peak;
}

Time FollowedShifts::expected(const UseShifts::Shift& shift) const {
  Followed* const found = find(shift.chunk);
  if (found == nullptr || found->since == Time::zero()) return shift.length();
  const Time stayed = shift.first - found->since;
  const Time length = shift.last - shift.first;
  if (length >= 2 * stayed) return shift.length();
  if (stayed < followed_least) return Time::zero();
  return std::clamp(stayed - 2 * length, Time::zero(), length);
}

bool FollowedShifts::alternates(ChunkId chunk, Time now) const {
  Followed* const found = find(chunk);
  if (found == nullptr) return false;
  const Followed& its = *found;
  return its.stayed < followed_least && now - its.since < 3 * its.stayed;
}

Time FollowedShifts::patience(ChunkId chunk, Time now) const {
  Followed* const found = find(chunk);
  if (found == nullptr) return least_;
  int patience = found->patience;
  for (Time since = now - found->judged; patience > 1 && since >= forgiven_after;
       since -= forgiven_after)
    patience /= 2;
  return patience * least_;
}

Time FollowedShifts::judge(ChunkId chunk, Time now) {
  const Time before = patience(chunk, now);
  Followed* const found = find(chunk);
  if (found == nullptr || !found->open) return before;
  Followed& its = *found;
  const auto times = static_cast<int>(before / std::max(least_, Time(1)));
  its.patience =
      its.saved >= its.made.owed ? std::max(1, times / 2) : std::min(patience_max, 2 * times);
  its.judged = now;
  its.open = false;
  return its.patience * least_;
}

std::span<const UsedBytes> FollowedShifts::users(ChunkId chunk, const Snapshot& snapshot) const {
  Followed* const found = find(chunk);
  if (found == nullptr || !corrects(*found, chunk, snapshot)) return {};
  return found->made.users;
}

void ShiftWatch::note(const UseEvent& use, const Snapshot& snapshot) {
  if (limits_.least <= Time::zero()) return;
  followed_.note(use, snapshot);
  if (use.device == snapshot.chunk(use.chunk).at && !shifts_.follows(use.chunk)) return;
  const Time patience = followed_.patience(use.chunk, snapshot.now());
  const UseShifts::Shift* ended = shifts_.note(use, snapshot, patience);
  if (ended != nullptr && ended->length() >= limits_.least) followed_.went_back(*ended);
}

const UseShifts::Shift* ShiftWatch::due(ChunkId chunk, const Snapshot& snapshot) {
  if (lasting(chunk) == nullptr || !followed_.has_room(chunk)) return nullptr;
  return shifts_.lasting(chunk, followed_.judge(chunk, snapshot.now()));
}

Time ShiftWatch::expected(const UseShifts::Shift& shift) const {
  return std::min(followed_.expected(shift), limits_.most);
}

bool ShiftWatch::makes_way(ChunkId chunk, const Snapshot& snapshot) const {
  return snapshot.now() - snapshot.chunk(chunk).last_use >= limits_.least ||
         lasting(chunk) != nullptr;
}

void ShiftWatch::correct(ChunkId chunk, const Snapshot& snapshot, bool shifting,
                         Outlook& outlook) const {
  const UseShifts::Shift* shift = shifting ? lasting(chunk) : nullptr;
  outlook.share_out(shift != nullptr ? shift->users : followed_.users(chunk, snapshot));
}

void ShiftWatch::moved(const MoveResult& result, Time now) {
  if (result.moved) shifts_.forget(result.chunk);
  followed_.moved(result, now);
}

void ShiftWatch::gone(ChunkId chunk) {
  shifts_.forget(chunk);
  followed_.forget(chunk);
}

}  // namespace vma::inline v1
