#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace vma {

/// A program in the CPLEX LP format, as far as `write_lp` uses it, read by the rules of the format.
class LpText {
 public:
  struct Term {
    std::size_t variable;
    double factor;
  };
  struct Row {
    std::string name;
    bool equal;
    double limit;
    std::vector<Term> terms;
  };

  /// Throws: std::runtime_error for unknown syntax.
  explicit LpText(const std::string& path);

  /// The optimum by exhaustive search, skipping values that a row already excludes; infinite if no
  /// solution exists.
  double least() const;

  std::string sum_name;
  std::vector<Term> sum;
  std::vector<Row> rows;
  std::vector<std::string> variables;
  std::size_t binaries = 0;

 private:
  std::size_t variable(const std::string& name);
};

}  // namespace vma
