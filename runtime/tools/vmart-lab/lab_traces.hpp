#pragma once

#include "lab/generate/trace_generators.hpp"
#include "lab/import/trace_formats.hpp"

#include <cstdint>
#include <string>

namespace vma {

/// Converts a foreign file to a trace and prints a summary. Returns the exit status.
int run_convert(const ConvertOptions& options);

/// Generates a synthetic trace and prints a summary. Returns the exit status.
int run_generate(const GenerateOptions& options);

struct TraceCommand {
  std::string path;
  std::uint64_t bad_lines_max = BadLines::count_max;
};
/// Prints a summary of a trace and its errors. Returns the exit status: 1 if there are any.
int run_trace(const TraceCommand& command);

// Names and parameters, shown at the end of the help text.
std::string describe_formats();
std::string describe_generators();

}  // namespace vma
