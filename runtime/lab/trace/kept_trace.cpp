#include "lab/trace/kept_trace.hpp"

#include <algorithm>

namespace vma {

/// Texts keep their numbers: both tables count from 1, in the same order.
void KeptTrace::write(std::span<const TraceEvent> events, const TraceTags& tags) {
  for (std::size_t tag = tags_.size(); tag < tags.size(); ++tag)
    tags_.intern(tags.text(static_cast<TagId>(tag)));
  events_.insert(events_.end(), events.begin(), events.end());
}

std::span<const TraceEvent> KeptTrace::next() {
  const std::size_t count = std::min(batch_max, events_.size() - handed_out_);
  handed_out_ += count;
  return std::span<const TraceEvent>(events_).subspan(handed_out_ - count, count);
}

}  // namespace vma
