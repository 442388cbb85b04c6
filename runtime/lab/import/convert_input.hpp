#pragma once

#include "lab/generate/trace_parameters.hpp"
#include "lab/trace/bad_lines.hpp"

#include <cstdint>
#include <string>

namespace vma {

/// What a converter is given: the file, what it is to assume, and where bad lines are counted.
struct ConvertInput {
  const std::string& path;
  const TraceValues& values;
  std::uint64_t seed = 0;  ///< For those that draw what the file does not have.
  BadLines& bad;
};

}  // namespace vma
