#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vma {

/// A linear program in variables that are 0 or 1: minimises a sum under constraints. A value.
struct LinearProgram {
  struct Term {
    std::uint32_t column = 0;
    double factor = 1;
  };
  struct Column {
    std::string name;
    double cost = 0;
  };
  /// The sum of its terms equals `limit`, or is at most that.
  struct Row {
    std::string name;
    bool equal = true;
    double limit = 0;
    std::vector<Term> terms;
  };

  double constant = 0;  ///< Of the sum.
  std::vector<Column> columns;
  std::vector<Row> rows;
};

}  // namespace vma
