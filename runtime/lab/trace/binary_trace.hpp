#pragma once

#include "lab/trace/trace_sink.hpp"
#include "lab/trace/trace_source.hpp"

#include <memory>
#include <string>

namespace vma {

/// Reads a binary trace; holds one block and one batch. This call and `next` throw at the first
/// fault in the file: an experiment with half a trace would be worthless. Throws:
/// Error{invalid_argument} with the file, the offset and the reason.
std::unique_ptr<TraceSource> read_binary_trace(const std::string& path);

/// Writes a binary trace; holds one block. Throws: Error{invalid_argument} with the file, if it
/// cannot be created.
std::unique_ptr<TraceSink> write_binary_trace(const std::string& path, const TraceHeader& header);

}  // namespace vma
