#pragma once

#include "lab/generate/trace_parameters.hpp"
#include "lab/import/convert_input.hpp"
#include "lab/trace/event_order.hpp"
#include "lab/trace/trace_header.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// Other people's form of something that traces can be made of.
struct TraceFormat {
  std::string_view name;
  std::string_view meaning;  ///< One line.
  std::string_view origin, licence;
  std::span<const TraceParameter> parameters;
  void (*convert)(const ConvertInput& input, EventOrder& order);
  /// All files that `convert` reads of such an input; null: it alone.
  std::vector<std::string> (*files)(const std::string& input) = nullptr;
};

/// All there are, in the order of the alphabet.
std::span<const TraceFormat> trace_formats();

struct ConvertOptions {
  std::string format;  ///< Of `trace_formats`, or "trace" for one of our own.
  std::string input, output;
  std::vector<std::string> values;  ///< "name=value".
  std::uint64_t seed = 1;
  std::uint64_t bad_lines_max = BadLines::count_max;
};

struct ConvertReport {
  TraceAudit audit;
  BadLines bad;
};

/// What a conversion reads: the input, and what belongs to it. Throws: Error{invalid_argument} for
/// an unknown format, or where something is missing.
std::vector<std::string> files_of(const ConvertOptions& options);
/// "vmart-lab convert g10 seed=1 iterations=2 stages=0": the format and all that it assumes.
std::string how_made(const ConvertOptions& options);

/// Makes a trace of `input`, in the form of the ending of `output`. What is written when it fails
/// is removed. Throws: Error{invalid_argument} that names the file and the line, or what else is
/// wrong; Error{driver_failure} when the output cannot be written.
ConvertReport convert_trace(const ConvertOptions& options);

}  // namespace vma
