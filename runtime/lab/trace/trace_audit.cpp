#include "lab/trace/trace_audit.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vma {

std::uint64_t TraceRoom::chunk_max(std::uint64_t otherwise) const noexcept {
  return std::max(sized_chunk_max, std::min(unsized_object_max, otherwise));
}

void TraceAudit::count_room(const TraceEvent& allocation) {
  bytes_live_ += allocation.bytes;
  room_.peak_bytes = std::max(room_.peak_bytes, bytes_live_);
  std::uint64_t& largest =
      allocation.chunk_bytes > 0 ? room_.sized_chunk_max : room_.unsized_object_max;
  const std::uint64_t chunk =
      allocation.chunk_bytes > 0 ? allocation.chunk_bytes : allocation.bytes;
  largest = std::max(largest, std::min(chunk, allocation.bytes));
}

void TraceAudit::count_access(const TraceEvent& event) {
  const double bytes = static_cast<double>(event.bytes) * static_cast<double>(event.passes);
  if (event.use != UseKind::write) bytes_read_ += bytes;
  if (event.use != UseKind::read) bytes_written_ += bytes;
  if (event.at.is_set()) {
    devices_.insert(event.at.location().ordinal);
  } else {
    ++unplaced_;
  }
  end_ = std::max(end_, event.time + event.duration);
}

std::optional<std::string> TraceAudit::judge(const TraceEvent& event) {
  if (event.kind == TraceEventKind::mark) return std::nullopt;
  const auto found = live_.find(event.object);
  if (event.kind == TraceEventKind::allocation) {
    if (found != live_.end()) return fmt::format("object {} already exists", event.object);
    live_.emplace(event.object, event.bytes);
    count_room(event);
    return std::nullopt;
  }
  if (found == live_.end()) return fmt::format("object {} does not exist", event.object);
  if (event.kind == TraceEventKind::free) {
    bytes_live_ -= found->second;
    live_.erase(found);
  } else if (event.kind != TraceEventKind::tag &&
             (event.offset > found->second || event.bytes > found->second - event.offset)) {
    return fmt::format("{} bytes from {} on of object {}, which has {}", event.bytes, event.offset,
                       event.object, found->second);
  }
  return std::nullopt;
}

std::optional<std::string> TraceAudit::add(const TraceEvent& event) {
  if (events_ == 0) begin_ = event.time;
  ++events_;
  ++counts_[static_cast<unsigned>(event.kind)];
  end_ = std::max(end_, event.time);
  if (event.kind == TraceEventKind::access) count_access(event);
  std::optional<std::string> fault = judge(event);
  if (fault) ++fault_count_;
  return fault;
}

void TraceAudit::add(std::span<const TraceEvent> events) {
  for (const TraceEvent& event : events) {
    std::optional<std::string> fault = add(event);
    if (fault && faults_.size() < faults_kept_max) faults_.push_back({events_, *std::move(fault)});
  }
}

}  // namespace vma
