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

}  // namespace vma
