#pragma once

#include "lab/bounds/program/linear_program.hpp"

#include <string>

namespace vma {

/// Writes `program` in the CPLEX LP format, one term a line. The sum's constant is the cost of a
/// variable that is always 1, for readers do not agree on constants. `about` stands in the first
/// line, `unit` is the sum's name. Throws: Error{invalid_argument} for a file that cannot be made,
/// Error{driver_failure} when it cannot be written; then there is none.
void write_lp(const LinearProgram& program, const std::string& path, const std::string& about,
              const std::string& unit);

}  // namespace vma
