#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// A text table that drops columns if the output is narrow. The first column names the row and
/// always stays.
class TextTable {
 public:
  struct Column {
    std::string title;
    std::size_t width = 0;  ///< Minimum width.
  };

  /// Columns in order of importance; the last ones are dropped first.
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Requires: one cell per column.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const noexcept { return rows_.empty(); }
  std::size_t rows() const noexcept { return rows_.size(); }
  /// The title, then the rows, each at most `width` letters wide, without newlines.
  std::vector<std::string> lines(std::size_t width) const;
  /// All columns, with newlines.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// The first `width` letters of UTF-8; each takes one column.
std::string_view first_letters(std::string_view text, std::size_t width);

}  // namespace vma
