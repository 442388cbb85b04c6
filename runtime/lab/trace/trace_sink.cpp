#include "lab/trace/trace_sink.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vma {

WholeFile::Terms trace_file_terms() {
  return {.call = "create_trace",
          .kind = ErrorKind::invalid_argument,
          .mode = 0644,
          .write_kind = ErrorKind::driver_failure};
}

unsigned version_with(const TraceEvent& event) noexcept {
  if (event.kind == TraceEventKind::hint) return 3;
  return needs_tasks(event) ? 2 : trace_version_first;
}

void require_next(const TraceEvent& event, Time before, const std::string& path) {
  const char* const fault =
      event.time < before ? "it is earlier than the previous event" : fault_of(event);
  if (fault == nullptr) return;
  throw Error(ErrorKind::invalid_argument, "TraceSink::write",
              fmt::format("{}: event \"{}\" of object {} at {} ns: {}", path, to_string(event.kind),
                          event.object, event.time.count(), fault));
}

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
