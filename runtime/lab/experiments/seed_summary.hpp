#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vma {

/// The table `summary.csv` of an experiment, with one row for all cells that differ only in the
/// seed. Not thread-safe.
class SeedSummary {
 public:
  /// The values kept from each cell: metrics by name, and the regret.
  static constexpr std::array figures{"cost_s",  "slowdown",    "regret",
                                      "stall_s", "bytes_moved", "settle_s"};
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

}  // namespace vma
