#include "placement/weighing/shift_watch.hpp"

#include <algorithm>

namespace vma::inline v1 {

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
