#pragma once

#include <string>
#include <string_view>

namespace vma {

/// The metadata of a trace.
struct TraceHeader {
  std::string name;     ///< For tables and plots: "mooncake conversation".
  std::string origin;   ///< Where the data come from.
  std::string licence;  ///< Licence of the data.
  std::string made;     ///< How: the converter or generator, its parameters and its seed.

  friend bool operator==(const TraceHeader&, const TraceHeader&) = default;
};

constexpr unsigned trace_version = 1;

/// One line, beginning with {"vmart_trace":1.
std::string write_trace_header(const TraceHeader& header);
/// Whether a line of JSON is a header rather than an event.
bool is_trace_header(std::string_view line) noexcept;
/// Throws: Error{invalid_argument} that names `file` and the fault, also for another version.
TraceHeader read_trace_header(std::string_view json, const std::string& file);

}  // namespace vma
