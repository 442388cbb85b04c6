#include "lab/experiments/seed_summary.hpp"

#include "lab/experiments/seed_spread.hpp"

#include <fmt/format.h>

namespace vma {
namespace {

std::string text_of(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}

}  // namespace

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

}  // namespace vma
