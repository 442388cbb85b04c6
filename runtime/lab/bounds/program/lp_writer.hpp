#pragma once

#include "lab/bounds/program/linear_program.hpp"

#include <string>

namespace vma {

/// Writes `program` in the CPLEX LP format, one term per line. The constant of the sum is written
/// as the cost of a variable that is always 1, because readers disagree on constants. `about`
/// becomes the first line, `unit` the name of the sum. Throws: Error{invalid_argument} if the file
/// cannot be created, Error{driver_failure} if it cannot be written; then no file is left.
void write_lp(const LinearProgram& program, const std::string& path, const std::string& about,
              const std::string& unit);

}  // namespace vma
