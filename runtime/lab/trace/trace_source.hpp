#pragma once

#include "lab/trace/line_reader.hpp"
#include "lab/trace/trace_event.hpp"
#include "lab/trace/trace_header.hpp"

#include <cstddef>
#include <span>

namespace vma {

/// Reads a trace in batches. Its memory does not grow with the number of events. Not thread-safe.
class TraceSource {
 public:
  static constexpr std::size_t batch_max = 1024;

  virtual ~TraceSource() = default;

  const TraceHeader& header() const noexcept { return header_; }
  /// The tags of all events returned so far.
  const TraceTags& tags() const noexcept { return tags_; }

  /// Returns the next events, at most `batch_max`, in order of time; none after the last. They are
  /// valid until the next call, and `fault_of` accepts each of them. Throws:
  /// Error{invalid_argument} with the file and the offset or line.
  virtual std::span<const TraceEvent> next() = 0;
  /// Null for formats without lines.
  virtual const BadLines* bad_lines() const noexcept { return nullptr; }

 protected:
  TraceHeader header_;
  TraceTags tags_;
};

}  // namespace vma
