#include "lab/routing/read_ahead.hpp"

#include <algorithm>

namespace vma {

std::span<const TraceEvent> ReadAhead::next() {
  events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(returned_));
  if (events_.empty() && more_) {
    const std::span<const TraceEvent> first = source_->next();
    events_.assign(first.begin(), first.end());
    more_ = !first.empty();
  }
  returned_ = events_.size();
  while (more_ && events_.size() < returned_ + ahead_max) {
    const std::span<const TraceEvent> batch = source_->next();
    events_.insert(events_.end(), batch.begin(), batch.end());
    more_ = !batch.empty();
  }
  return std::span(events_).first(returned_);
}

std::span<const TraceEvent> ReadAhead::from(const TraceEvent& event) const {
  const std::span<const TraceEvent> rest(&event, events_.data() + events_.size());
  return rest.first(std::min(rest.size(), ahead_max + 1));
}

}  // namespace vma
