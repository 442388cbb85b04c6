#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vma {

/// The table of an experiment with one row for all cells that differ only in the seed:
/// `summary.csv`. Not thread-safe.
class SeedSummary {
 public:
  /// The part of a cell that is kept: its metrics by name, and the regret.
  static constexpr std::array figures{"cost_s",  "slowdown",    "regret",
                                      "stall_s", "bytes_moved", "settle_s"};
  /// In the order of `figures`; null if the cell has none.
  using Values = std::array<std::optional<double>, figures.size()>;
  struct Key {
    std::string machine, trace, policy, router;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  void add(const Key& key, const Values& values);

  /// The fields of each line, rows in the order of their first cells, after a header line: the key,
  /// the number of seeds, then for each figure mean and half width of its 95 % interval (empty if
  /// `SeedSpread` has null) and the number of seeds that have it.
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
