#include "lab/trace/trace_sink.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

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

}  // namespace vma
