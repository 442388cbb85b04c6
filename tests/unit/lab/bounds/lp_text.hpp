#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace vma {

/// What a file in the CPLEX LP format asks, as far as `write_lp` writes it, read by its own rules.
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

  /// Throws: std::runtime_error for what it does not understand.
  explicit LpText(const std::string& path);

  /// By trying all values of the variables, but for those that a row already rules out; infinite if
  /// none is left.
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
