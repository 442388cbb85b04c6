#pragma once

#include "base/whole_file.hpp"
#include "lab/trace/trace_event.hpp"
#include "lab/trace/trace_header.hpp"
#include "lab/trace/trace_source.hpp"

#include <span>
#include <string>
#include <vector>

namespace vma {

/// Takes the events of a trace in order of time. Not thread-safe.
class TraceSink {
 public:
  virtual ~TraceSink() = default;

  /// `tags` holds the texts of all events; every call passes the same object. Requires: `fault_of`
  /// accepts each event, and none is earlier than the previous one. Throws: Error{invalid_argument}
  /// if an event breaks these rules, Error{driver_failure} if the file cannot be written.
  virtual void write(std::span<const TraceEvent> events, const TraceTags& tags) = 0;
  /// Completes the trace. Without it, the file keeps its previous contents. Throws like `write`.
  virtual void finish() = 0;
};

/// For the files of traces: a file that cannot be created is an invalid argument.
WholeFile::Terms trace_file_terms();

/// The first version of the formats that has such events.
unsigned version_with(const TraceEvent& event) noexcept;

/// Throws like `TraceSink::write` if `event` is invalid or earlier than `before`.
void require_next(const TraceEvent& event, Time before, const std::string& path);

/// A trace in memory, for repeated reading. Not thread-safe.
class KeptTrace : public TraceSink, public TraceSource {
 public:
  void write(std::span<const TraceEvent> events, const TraceTags& tags) override;
  void finish() override {}
  std::span<const TraceEvent> next() override;

  std::span<TraceEvent> events() noexcept { return events_; }
  std::span<const TraceEvent> events() const noexcept { return events_; }
  /// Restarts at the first event.
  void rewind() noexcept { handed_out_ = 0; }

 private:
  std::vector<TraceEvent> events_;
  std::size_t handed_out_ = 0;
};

}  // namespace vma
