#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vma {

/// A linear program with 0-1 variables: minimises a sum under constraints. A plain value.
struct LinearProgram {
  struct Term {
    std::uint32_t column = 0;
    double factor = 1;
  };
  struct Column {
    std::string name;
    double cost = 0;
  };
  /// The sum of the terms equals `limit`, or is at most `limit`.
  struct Row {
    std::string name;
    bool equal = true;
    double limit = 0;
    std::vector<Term> terms;
  };

  double constant = 0;  ///< Part of the sum.
  std::vector<Column> columns;
  std::vector<Row> rows;
};

/// Writes `program` in the CPLEX LP format, one term per line. The constant of the sum is written
/// as the cost of a variable that is always 1, because readers disagree on constants. `about`
/// becomes the first line, `unit` the name of the sum. Throws: Error{invalid_argument} if the file
/// cannot be created, Error{driver_failure} if it cannot be written; then no file is left.
void write_lp(const LinearProgram& program, const std::string& path, const std::string& about,
              const std::string& unit);

}  // namespace vma
