#pragma once

#include "lab/trace/trace_sink.hpp"
#include "lab/trace/trace_source.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace vma {

/// Reads a trace of JSON lines. Skips empty lines; a line that is not a valid event, or is earlier
/// than the previous event, is a bad line. Throws: Error{invalid_argument} with the file.
std::unique_ptr<TraceSource> read_json_trace(const std::string& path, std::uint64_t bad_lines_max);

/// Writes a trace of JSON lines. Omits members with default values. Throws: Error{invalid_argument}
/// with the file, if it cannot be created.
std::unique_ptr<TraceSink> write_json_trace(const std::string& path, const TraceHeader& header);

}  // namespace vma
