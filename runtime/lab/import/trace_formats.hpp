#pragma once

#include "lab/generate/trace_parameters.hpp"
#include "lab/trace/event_order.hpp"
#include "lab/trace/line_reader.hpp"
#include "lab/trace/trace_header.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// The input of a converter: the file, the assumptions, and the counter of bad lines.
struct ConvertInput {
  const std::string& path;
  const TraceValues& values;
  std::uint64_t seed = 0;  ///< For converters that sample what the file lacks.
  BadLines& bad;
};

/// A format that can be converted to a trace.
struct TraceFormat {
  std::string_view name;
  std::string_view meaning;  ///< One line.
  std::string_view origin, licence;
  std::span<const TraceParameter> parameters;
  /// Null for a foreign format, which runtime/python/vmart/lab/importers imports.
  void (*convert)(const ConvertInput& input, EventOrder& order) = nullptr;
  /// Returns all files that `convert` reads for an input. Null likewise.
  std::vector<std::string> (*files)(const std::string& input) = nullptr;
};

/// All formats, in alphabetical order. Throws: as `PythonChild`.
std::span<const TraceFormat> trace_formats();

struct ConvertOptions {
  std::string format;  ///< A name from `trace_formats`, or "trace" for vmart's own format.
  std::string input, output;
  std::vector<std::string> values;  ///< Each "name=value".
  std::uint64_t seed = 1;
  std::uint64_t bad_lines_max = BadLines::count_max;
};

struct ConvertReport {
  TraceHeader header;
  TraceAudit audit;
  BadLines bad;
};

/// Returns the files that a conversion reads: the input and the files that belong to it. Throws:
/// Error{invalid_argument} for an unknown format, or if a file is missing.
std::vector<std::string> files_of(const ConvertOptions& options);
/// Describes the format and all its assumptions: "vmart-lab convert g10 seed=1 iterations=2
/// stages=0".
std::string how_made(const ConvertOptions& options);

/// Converts `input` to a trace in the format given by the extension of `output`. Removes partial
/// output on failure. Throws: Error{invalid_argument} with the file and the line, or another fault;
/// Error{driver_failure} if the output cannot be written; as `PythonChild`.
ConvertReport convert_trace(const ConvertOptions& options);

/// Our own recordings.
TraceFormat recording_format();

}  // namespace vma
