#pragma once

#include "base/printable.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
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

// Members of an answer. Missing members, and those of another type, read as zero or empty, so that
// a tool and a runtime of different versions can still talk to each other.

std::string text_of(const boost::json::object& object, std::string_view name);
double number_of(const boost::json::object& object, std::string_view name);
std::uint64_t count_of(const boost::json::object& object, std::string_view name);
bool flag_of(const boost::json::object& object, std::string_view name);
const boost::json::array& list_of(const boost::json::object& object, std::string_view name);
const boost::json::object& object_of(const boost::json::object& object, std::string_view name);
/// The same of an element of a list.
const boost::json::object& object_of(const boost::json::value& element);

/// Prints one line of `readable_json`.
void print_json(const boost::json::value& value);

// Human-readable text.

std::string seconds_text(double seconds);
/// One event, without a newline.
std::string event_line(const boost::json::object& event);
/// A counter with the unit that its name's suffix implies; an object as "count 4, max 3.00 ms".
std::string value_text(std::string_view name, const boost::json::value& value);
/// Usage of a place, from 0 to 1; 0 if its capacity is unknown.
double used_share(const boost::json::object& place);
/// Usage of each place.
TextTable places_table(const boost::json::array& places);
/// NVML's values for each GPU; empty if there are none.
TextTable loads_table(const boost::json::object& loads);

}  // namespace vma
