#pragma once

#include "lab/generate/trace_generators.hpp"
#include "lab/import/trace_formats.hpp"

#include <cstdint>
#include <string>

namespace vma {

/// Converts a foreign file to a trace and prints a summary. Returns the exit status.
int run_convert(const ConvertOptions& options);

/// Makes a synthetic trace and prints what is in it. Returns the exit status.
int run_generate(const GenerateOptions& options);

struct TraceCommand {
  std::string path;
  std::uint64_t bad_lines_max = BadLines::count_max;
};
/// Prints what is in a trace and what is wrong with it. Returns the exit status: 1 if something is.
int run_trace(const TraceCommand& command);

// Names and parameters, for the end of the help.
std::string describe_formats();
std::string describe_generators();

}  // namespace vma
