#include "lab/trace/trace_sink.hpp"

#include "lab/trace/binary_trace_writer.hpp"
#include "lab/trace/json_trace_writer.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

namespace vma {

std::unique_ptr<TraceSink> create_trace(const std::string& path, const TraceHeader& header) {
  if (path.ends_with(".jsonl")) return std::make_unique<JsonTraceWriter>(path, header);
  if (path.ends_with(".vtrace")) return std::make_unique<BinaryTraceWriter>(path, header);
  throw Error(ErrorKind::invalid_argument, "create_trace",
              fmt::format("{}: must end in .jsonl or .vtrace", path));
}

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
