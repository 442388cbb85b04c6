#pragma once

#include "base/whole_file.hpp"
#include "lab/trace/trace_event.hpp"
#include "lab/trace/trace_header.hpp"
#include "lab/trace/trace_tags.hpp"

#include <memory>
#include <span>
#include <string>

namespace vma {

/// Takes the events of a trace, in the order of time. Not thread-safe.
class TraceSink {
 public:
  virtual ~TraceSink() = default;

  /// `tags` are those of the events; the same object at each call. Requires: `fault_of` has nothing
  /// against any of them, and none is before the one before. Throws: Error{invalid_argument} for
  /// what does not hold, Error{driver_failure} when a file cannot be written.
  virtual void write(std::span<const TraceEvent> events, const TraceTags& tags) = 0;
  /// Ends the trace. One that is not ended leaves what its file was before. Throws as `write` does.
  virtual void finish() = 0;
};

/// The form is that of the ending: `.jsonl`, or `.vtrace` for the binary one. Throws:
/// Error{invalid_argument} for another ending or a file that cannot be made.
std::unique_ptr<TraceSink> create_trace(const std::string& path, const TraceHeader& header);

/// Of the files of traces: what cannot be made is an invalid argument.
WholeFile::Terms trace_file_terms();

/// Throws, as `TraceSink::write` does, if `event` makes no sense or comes too late.
void require_next(const TraceEvent& event, Time before, const std::string& path);

}  // namespace vma
