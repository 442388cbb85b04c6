#include "lab/fidelity/place_books.hpp"

#include "placement/books/place_number.hpp"

#include <algorithm>

namespace vma {

Location recorded_location(const RecordingHeader& header, std::size_t place) {
  const std::size_t gpus = header.costs.gpus();
  return place < gpus ? gpu(static_cast<int>(place)) : host(static_cast<int>(place - gpus));
}

void PlaceBooks::follow(const TraceEvent& event) {
  for (; next_ < moves_.size() && moves_[next_].end <= event.time; ++next_) apply(moves_[next_]);
  switch (event.kind) {
    case TraceEventKind::allocation:
      objects_[event.object] = {event.chunk_bytes,
                                std::vector((event.bytes - 1) / event.chunk_bytes + 1, event.at)};
      break;
    case TraceEventKind::place: place(event); break;
    case TraceEventKind::free: objects_.erase(event.object); break;
    case TraceEventKind::access: find_parts(event); break;
    default: break;
  }
}

void PlaceBooks::apply(const RecordedMove& move) {
  const auto found = objects_.find(move.allocation);
  if (found == objects_.end() || move.slot >= found->second.at.size()) return;
  found->second.at[move.slot] = TracePlace(recorded_location(header_, index(move.to)));
}

void PlaceBooks::place(const TraceEvent& event) {
  Object& object = objects_.at(event.object);
  const std::uint64_t end = (event.offset + event.bytes - 1) / object.chunk_bytes;
  for (std::uint64_t slot = event.offset / object.chunk_bytes; slot <= end; ++slot)
    object.at[slot] = event.at;
}

void PlaceBooks::find_parts(const TraceEvent& event) {
  const Object& object = objects_.at(event.object);
  const double passes = event.passes * (event.use == UseKind::read_write ? 2.0 : 1.0);
  const std::uint64_t end = event.offset + event.bytes;
  parts_.clear();
  for (std::uint64_t slot = event.offset / object.chunk_bytes; slot * object.chunk_bytes < end;
       ++slot) {
    const std::uint64_t first = std::max(slot * object.chunk_bytes, event.offset);
    const std::uint64_t last = std::min((slot + 1) * object.chunk_bytes, end);
    parts_.push_back({object.at[slot], static_cast<double>(last - first) * passes});
  }
}

}  // namespace vma
