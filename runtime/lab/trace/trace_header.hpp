#pragma once

#include <string>
#include <string_view>

namespace vma {

/// The metadata of a trace.
struct TraceHeader {
  std::string name;     ///< For tables and plots: "mooncake conversation".
  std::string origin;   ///< Source of the data.
  std::string licence;  ///< Licence of the data.
  std::string made;     ///< The converter or generator, with its parameters and seed.

  friend bool operator==(const TraceHeader&, const TraceHeader&) = default;
};

/// The newest version that is read. A trace has the lowest that has all its events, so that earlier
/// readers read as many as possible: the first one has neither tasks nor hints, the second no
/// hints.
constexpr unsigned trace_version = 3;
constexpr unsigned trace_version_first = 1;

/// Returns {"vmart_trace":1, the same number of bytes for each version.
std::string trace_header_begin(unsigned version);
/// Returns one line that begins with that.
std::string write_trace_header(const TraceHeader& header, unsigned version = trace_version_first);
/// Whether a line of JSON is a header and not an event.
bool is_trace_header(std::string_view line) noexcept;
/// Throws: Error{invalid_argument} with `file` and the fault, also for an unknown version.
TraceHeader read_trace_header(std::string_view json, const std::string& file);

}  // namespace vma
