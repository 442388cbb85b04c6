#pragma once

#include "lab/experiments/cell_file.hpp"
#include "lab/experiments/experiment_cell.hpp"
#include "lab/experiments/seed_summary.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// One row per cell, in the order of the experiment, as CSV (RFC 4180, but with line feeds as line
/// ends). Not thread-safe.
class ResultsTable {
 public:
  /// Requires: `experiment` outlives it.
  ResultsTable(const Experiment& experiment, std::size_t cells)
      : experiment_(experiment), rows_(cells) {}

  /// Sets the result of the experiment's cell number `at`. Throws: Error{invalid_argument} if its
  /// metrics differ from those of earlier cells: another version of the program wrote it.
  void set(std::size_t at, const ExperimentCell& cell, const CellFile& result);
  /// Includes a header line; omits cells without a result.
  std::string csv() const;
  /// One row for all cells that differ only in the seed, from `SeedSummary::lines`.
  std::string summary() const;

 private:
  struct Row {
    std::string line;
    SeedSummary::Key key;
    SeedSummary::Values values;
  };

  const Experiment& experiment_;
  std::vector<std::optional<Row>> rows_;
  std::string head_;  // Empty until there is a result.
};

/// One field, quoted if necessary.
std::string csv_field(std::string_view text);

}  // namespace vma
