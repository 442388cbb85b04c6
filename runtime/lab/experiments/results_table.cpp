#include "lab/experiments/results_table.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <system_error>

namespace vma {
namespace {

std::string line_of(const std::vector<std::string>& fields) {
  std::vector<std::string> written;
  for (const std::string& field : fields) written.push_back(csv_field(field));
  return fmt::format("{}\n", fmt::join(written, ","));
}

SeedSummary::Values values_of(const CellFile& result) {
  SeedSummary::Values values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string name = SeedSummary::figures[i];
    const std::string text = result.number(name == "regret" ? name : "metrics." + name);
    double value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec == std::errc()) values[i] = value;  // Empty means null.
  }
  return values;
}

}  // namespace

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

void ResultsTable::set(std::size_t at, const ExperimentCell& cell, const CellFile& result) {
  std::vector<std::string> names{"id", "machine", "trace", "kind", "policy", "router", "seed"};
  std::vector<std::string> values{cell.id,
                                  experiment_.machines[cell.machine].name,
                                  experiment_.traces[cell.trace].name,
                                  std::string(to_string(experiment_.traces[cell.trace].origin)),
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
                fmt::format("{}: has other metrics than the cells before it: another version wrote "
                            "it; choose another folder with --out, or remove it",
                            result.file()));
  }
  head_ = head;
  rows_[at] = Row{line_of(values),
                  {experiment_.machines[cell.machine].name, experiment_.traces[cell.trace].name,
                   cell.policy, cell.router},
                  values_of(result)};
}

std::string ResultsTable::csv() const {
  std::string text = head_;
  for (const std::optional<Row>& row : rows_)
    if (row) text += row->line;
  return text;
}

std::string ResultsTable::summary() const {
  SeedSummary summary;
  for (const std::optional<Row>& row : rows_)
    if (row) summary.add(row->key, row->values);
  std::string text;
  for (const std::vector<std::string>& line : summary.lines()) text += line_of(line);
  return text;
}

}  // namespace vma
