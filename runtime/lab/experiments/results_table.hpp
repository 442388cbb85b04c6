#pragma once

#include "lab/experiments/cell_file.hpp"
#include "lab/experiments/experiment.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// How much the results of one configuration vary over its seeds, and how precise their mean is.
struct SeedSpread {
  std::size_t count = 0;
  std::optional<double> mean;                ///< Null without values.
  std::optional<double> standard_deviation;  ///< Of the sample (n - 1). Null for fewer than two.
  /// With 95 % confidence, the true mean is within this distance of `mean`, if the values are
  /// normal: t(0.975; n - 1) * standard_deviation / sqrt(n), with Student's distribution ("The
  /// probable error of a mean", Biometrika 6, 1908). Null for fewer than two values.
  std::optional<double> half_width;
  friend bool operator==(const SeedSpread&, const SeedSpread&) = default;
};

SeedSpread spread_of(std::span<const double> values);

/// The table `summary.csv` of an experiment, with one row for all cells that differ only in the
/// seed. Not thread-safe.
class SeedSummary {
 public:
  /// The values kept from each cell: metrics by name, and the regret.
  static constexpr std::array figures{"cost_s",  "slowdown",    "regret",
                                      "stall_s", "bytes_moved", "rest_s"};
  /// In the order of `figures`; null if the cell has no such value.
  using Values = std::array<std::optional<double>, figures.size()>;
  struct Key {
    std::string machine, trace, policy, router;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  void add(const Key& key, const Values& values);

  /// Returns the fields of each line, after a header line, in the order of the rows' first cells:
  /// the key, the number of seeds, and for each figure the mean and the half width of its 95 %
  /// interval (empty if null in `SeedSpread`) and the number of seeds that have a value.
  std::vector<std::vector<std::string>> lines() const;

 private:
  struct Row {
    Key key;
    std::size_t seeds = 0;
    std::array<std::vector<double>, figures.size()> values;
  };
  std::vector<Row> rows_;
  std::map<Key, std::size_t> numbers_;
};

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
