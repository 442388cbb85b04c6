#include "placement/repeating/use_calendar.hpp"

namespace vma::inline v1 {

void UseCalendar::put(ChunkId chunk, const NextUse& use, Time now, PlaceId at,
                      std::uint16_t pays_below) {
  if (index(chunk) >= entries_.size()) entries_.resize(index(chunk) + 1);
  if (index(at) >= at_.size()) at_.resize(index(at) + 1);
  Entry& entry = entries_[index(chunk)];
  // The usual case: it is predicted again, with the same answer.
  const bool stays = entry.known && entry.at == at && entry.use.at == use.at &&
                     entry.use.device == use.device && entry.pays_below == pays_below;
  if (!stays) {
    drop(chunk);
    const UseOrder::Use listed{use.at, chunk, use.device, at, pays_below};
    order_.insert(listed);
    at_[index(at)].insert(listed);
  }
  entry = {use, now, at, true, pays_below};
}

void UseCalendar::drop(ChunkId chunk) {
  if (!has(chunk)) return;
  Entry& entry = entries_[index(chunk)];
  order_.erase(entry.use.at, chunk);
  at_[index(entry.at)].erase(entry.use.at, chunk);
  entry = {};
}

const UseCalendar::Entry& UseCalendar::operator[](ChunkId chunk) const {
  static const Entry none;
  return index(chunk) < entries_.size() ? entries_[index(chunk)] : none;
}

}  // namespace vma::inline v1
