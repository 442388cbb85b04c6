#include "lab/results_table.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace vma {
namespace {

std::string line_of(const std::vector<std::string>& fields) {
  std::vector<std::string> written;
  for (const std::string& field : fields) written.push_back(csv_field(field));
  return fmt::format("{}\n", fmt::join(written, ","));
}

}  // namespace

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

void ResultsTable::set(std::size_t at, const ExperimentCell& cell, const CellFile& result) {
  std::vector<std::string> names{"id", "machine", "trace", "policy", "router", "seed"};
  std::vector<std::string> values{cell.id,
                                  experiment_.machines[cell.machine].name,
                                  experiment_.traces[cell.trace].name,
                                  cell.policy,
                                  cell.router,
                                  fmt::format("{}", cell.seed)};
  for (auto& [name, value] : result.metrics()) {
    names.push_back(name);
    values.push_back(value);
  }
  names.insert(names.end(), {"lower_bound_s", "regret"});
  values.insert(values.end(), {result.number("bound.lower_bound_s"), result.number("regret")});
  const std::string head = line_of(names);
  if (!head_.empty() && head_ != head) {
    throw Error(ErrorKind::invalid_argument, "vmart-lab run",
                fmt::format("{}: has other metrics than cells before it: another version has made "
                            "it; choose another folder with --out, or remove it",
                            result.file()));
  }
  head_ = head;
  rows_[at] = line_of(values);
}

std::string ResultsTable::csv() const {
  std::string text = head_;
  for (const std::optional<std::string>& row : rows_) text += row.value_or("");
  return text;
}

}  // namespace vma
