#include "lab/experiments/results_table.hpp"

#include <vma/error.hpp>

#include <boost/math/distributions/students_t.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <numeric>
#include <system_error>

namespace vma {
namespace {

constexpr double confidence = 0.95;

std::string text_of(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}

std::string line_of(const std::vector<std::string>& fields) {
  std::vector<std::string> written;
  for (const std::string& field : fields) written.push_back(csv_field(field));
  return fmt::format("{}\n", fmt::join(written, ","));
}

SeedSummary::Values values_of(const CellFile& result) {
  SeedSummary::Values values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string name = SeedSummary::figures[i];
    const std::string text = result.number(name == "regret" ? "/regret" : "/metrics/" + name);
    double value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec == std::errc()) values[i] = value;  // Empty means null.
  }
  return values;
}

}  // namespace

SeedSpread spread_of(std::span<const double> values) {
  SeedSpread spread;
  spread.count = values.size();
  if (values.empty()) return spread;
  const double count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  spread.mean = mean;
  if (values.size() < 2) return spread;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  spread.standard_deviation = std::sqrt(squares / (count - 1));
  const boost::math::students_t distribution(count - 1);
  spread.half_width = boost::math::quantile(distribution, (1 + confidence) / 2) *
                      *spread.standard_deviation / std::sqrt(count);
  return spread;
}

void SeedSummary::add(const Key& key, const Values& values) {
  const auto [known, is_new] = numbers_.try_emplace(key, rows_.size());
  if (is_new) rows_.push_back({key, 0, {}});
  Row& row = rows_[known->second];
  ++row.seeds;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i]) row.values[i].push_back(*values[i]);
}

std::vector<std::vector<std::string>> SeedSummary::lines() const {
  std::vector<std::string> names{"machine", "trace", "policy", "router", "seeds"};
  for (const char* const figure : figures) {
    for (const char* const what : {"mean", "half_width", "n"})
      names.push_back(fmt::format("{}_{}", figure, what));
  }
  std::vector<std::vector<std::string>> lines{names};
  for (const Row& row : rows_) {
    std::vector<std::string> line{row.key.machine, row.key.trace, row.key.policy, row.key.router,
                                  fmt::format("{}", row.seeds)};
    for (const std::vector<double>& values : row.values) {
      const SeedSpread spread = spread_of(values);
      line.insert(line.end(), {text_of(spread.mean), text_of(spread.half_width),
                               fmt::format("{}", spread.count)});
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

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
  values.insert(values.end(), {result.number("/bound/lower_bound_s"), result.number("/regret")});
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
