#pragma once

#include "lab/generate/trace_parameters.hpp"
#include "lab/trace/line_reader.hpp"

#include <cstdint>
#include <string>

namespace vma {

/// The input of a converter: the file, the assumptions, and the counter of bad lines.
struct ConvertInput {
  const std::string& path;
  const TraceValues& values;
  std::uint64_t seed = 0;  ///< For converters that sample what the file lacks.
  BadLines& bad;
};

}  // namespace vma
