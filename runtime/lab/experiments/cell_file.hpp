#pragma once

#include "machine/json_text.hpp"

#include <boost/json/object.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vma {

/// A finished cell as its file has it: its scalars, as they are written. The report is not kept.
class CellFile {
 public:
  /// Nothing if the text is no whole cell: a file that was cut.
  static std::optional<CellFile> parse(const std::string& text, const std::string& file);

  const std::string& file() const noexcept { return head_.file(); }
  /// What the cell is of: those of its report.
  const boost::json::object& inputs() const noexcept { return inputs_; }
  /// The scalars of the metrics in their order, numbers in the shortest form; empty for null.
  std::vector<std::pair<std::string, std::string>> metrics() const;
  /// "regret", "bound.lower_bound_s": in the shortest form, empty for null or what is not there.
  std::string number(std::string_view path) const;

 private:
  CellFile(JsonText head, boost::json::object inputs)
      : head_(std::move(head)), inputs_(std::move(inputs)) {}

  JsonText head_;  // All but the report.
  boost::json::object inputs_;
};

}  // namespace vma
