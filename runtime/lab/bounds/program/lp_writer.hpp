#pragma once

#include "lab/bounds/program/linear_program.hpp"

#include <string>

namespace vma {

/// Writes `program` in the CPLEX LP format, one term per line. The sum's constant is the cost of a
/// variable that is always 1, because readers handle constants differently. `about` is the first
/// line, `unit` is the sum's name. Throws: Error{invalid_argument} for a file that cannot be
/// created, Error{driver_failure} if it cannot be written; then no file is left.
void write_lp(const LinearProgram& program, const std::string& path, const std::string& about,
              const std::string& unit);

}  // namespace vma
