#include "unit/lab/bounds/lp_text.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace vma {
namespace {

constexpr double slack = 1e-9;

/// Assigns one variable after the other, and keeps the range that the sum of each row can still
/// reach.
class EveryChoice {
 public:
  explicit EveryChoice(const LpText& text)
      : text_(text),
        costs_(text.variables.size()),
        rows_of_(text.variables.size()),
        least_(text.rows.size()),
        most_(text.rows.size()) {
    for (const LpText::Term& term : text.sum) costs_[term.variable] += term.factor;
    std::vector<bool> seen(costs_.size());
    for (std::size_t row = 0; row < text.rows.size(); ++row) {
      for (const LpText::Term& term : text.rows[row].terms) {
        rows_of_[term.variable].push_back({row, term.factor});
        (term.factor < 0 ? least_ : most_)[row] += term.factor;
        if (!seen[term.variable]) order_.push_back(term.variable);
        seen[term.variable] = true;
      }
    }
  }

  double run() {
    go_on(0, 0);
    return best_;
  }

 private:
  void go_on(std::size_t next, double cost) {
    if (cost >= best_) return;  // Costs are not negative.
    if (next == order_.size()) {
      best_ = cost;
      return;
    }
    const std::size_t variable = order_[next];
    for (const int value : {1, 0}) {
      bool possible = true;
      for (const auto& [row, factor] : rows_of_[variable]) {
        ((factor < 0) == (value == 0) ? least_ : most_)[row] += value == 0 ? -factor : factor;
        possible = possible && can_hold(row);
      }
      if (possible) go_on(next + 1, cost + value * costs_[variable]);
      for (const auto& [row, factor] : rows_of_[variable])
        ((factor < 0) == (value == 0) ? least_ : most_)[row] -= value == 0 ? -factor : factor;
    }
  }
  bool can_hold(std::size_t row) const {
    const double limit = text_.rows[row].limit;
    return least_[row] <= limit + slack && (!text_.rows[row].equal || most_[row] >= limit - slack);
  }

  const LpText& text_;
  std::vector<double> costs_;
  std::vector<std::size_t> order_;  // In the order in which the rows name them.
  std::vector<std::vector<std::pair<std::size_t, double>>> rows_of_;
  std::vector<double> least_, most_;  // One entry per row.
  double best_ = std::numeric_limits<double>::infinity();
};

}  // namespace

LpText::LpText(const std::string& path) {
  std::ifstream file(path);
  std::string line, section;
  std::vector<Term>* terms = nullptr;
  while (std::getline(file, line)) {
    std::istringstream words(line.substr(0, line.find('\\')));
    std::string word, name;
    double number = 0;
    if (!line.empty() && line[0] != ' ') {
      if (line[0] != '\\') section = line;
    } else if (section == "Binaries") {
      words >> name;
      if (std::ranges::find(variables, name) == variables.end())
        throw std::runtime_error(name + " is in no row");
      ++binaries;
    } else if (line.ends_with(':')) {
      words >> word;
      word.pop_back();
      if (section == "Minimize") sum_name = word;
      if (section == "Subject To") rows.push_back({word, true, 0, {}});
      terms = section == "Minimize" ? &sum : &rows.back().terms;
    } else if (words >> word >> number && terms != nullptr) {
      if (word == "=" || word == "<=") {
        rows.back().equal = word == "=";
        rows.back().limit = number;
      } else if ((word == "+" || word == "-") && words >> name) {
        terms->push_back({variable(name), word == "-" ? -number : number});
      } else {
        throw std::runtime_error(line);
      }
    } else {
      throw std::runtime_error(line);
    }
  }
  if (section != "End") throw std::runtime_error(path + " has no end");
}

std::size_t LpText::variable(const std::string& name) {
  const auto found = std::ranges::find(variables, name);
  const auto number = static_cast<std::size_t>(found - variables.begin());
  if (found == variables.end()) variables.push_back(name);
  return number;
}

double LpText::least() const {
  return EveryChoice(*this).run();
}

}  // namespace vma
