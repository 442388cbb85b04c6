#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vma {

/// A finished cell as stored in its file. Keeps its scalars as written, and drops the report.
class CellFile {
 public:
  /// Returns nothing if the text is not a complete cell, for example if the file is truncated.
  static std::optional<CellFile> parse(const std::string& text, const std::string& file);

  const std::string& file() const noexcept { return file_; }
  /// The inputs of the cell, from its report.
  const boost::json::object& inputs() const noexcept { return inputs_; }
  /// The scalars of the metrics in order, with numbers in the shortest form; empty for null.
  std::vector<std::pair<std::string, std::string>> metrics() const;
  /// A value such as "/regret" or "/bound/lower_bound_s" in the shortest form; empty if null or
  /// missing.
  std::string number(std::string_view pointer) const;

 private:
  CellFile(std::string file, boost::json::value head, boost::json::object inputs)
      : file_(std::move(file)), head_(std::move(head)), inputs_(std::move(inputs)) {}

  std::string file_;
  boost::json::value head_;  // Everything except the report.
  boost::json::object inputs_;
};

}  // namespace vma
