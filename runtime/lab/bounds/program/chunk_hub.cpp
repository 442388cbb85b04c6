#include "lab/bounds/program/chunk_hub.hpp"

#include <algorithm>
#include <limits>

namespace vma {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
/// Relative difference up to which two costs are considered equal.
constexpr double hub_rounding = 1e-12;
/// Direct steps that each step through the hub must replace on average: more rows slow down
/// solvers.
constexpr std::size_t worth = 2;

/// The steps of one layer as a matrix: rows are source states, columns are target states.
class HubSearch {
 public:
  HubSearch(std::span<const double> possible, std::span<double> steps, std::size_t places)
      : possible_(possible),
        steps_(steps),
        places_(places),
        states_(2 * places),
        hub_{std::vector<double>(states_, never), std::vector<double>(states_, never)} {}

  std::optional<ChunkHub> run() {
    for (std::size_t to = 0; to < states_; ++to) price_out(to);
    for (std::size_t from = 0; from < states_; ++from) price_into(from);
    std::size_t replaced = 0, used = 0;
    for (std::size_t from = 0; from < states_; ++from) {
      const std::size_t steps = count(from, from + 1, 0, states_);
      if (steps < 2) hub_.into[from] = never;
      if (steps >= 2) replaced += steps;
      used += steps >= 2 ? 1 : 0;
    }
    for (std::size_t to = 0; to < states_; ++to) {
      if (count(0, states_, to, to + 1) == 0) hub_.out[to] = never;
      used += hub_.out[to] < never ? 1 : 0;
    }
    if (used == 0 || replaced < worth * used) return std::nullopt;
    for (std::size_t from = 0; from < states_; ++from)
      for (std::size_t to = 0; to < states_; ++to)
        if (goes_by_hub(from, to)) steps_[from * states_ + to] = never;
    return std::move(hub_);
  }

 private:
  bool has_steps(std::size_t from) const {
    const auto row = steps_.subspan(from * states_, states_);
    return std::ranges::any_of(row, [](double step) { return step < never; });
  }
  /// The cheapest step from another place; set only if all states with steps can reach `to`.
  void price_out(std::size_t to) {
    double least = never;
    for (std::size_t from = 0; from < states_; ++from) {
      if (!has_steps(from)) continue;
      if (possible_[from * states_ + to] == never) return;
      if (from % places_ != to % places_) least = std::min(least, steps_[from * states_ + to]);
    }
    hub_.out[to] = least;
  }
  /// The smallest value that makes no step cheaper.
  void price_into(std::size_t from) {
    if (!has_steps(from)) return;
    double most = 0;
    for (std::size_t to = 0; to < states_; ++to)
      if (hub_.out[to] < never)
        most = std::max(most, possible_[from * states_ + to] - hub_.out[to]);
    hub_.into[from] = most;
  }
  bool goes_by_hub(std::size_t from, std::size_t to) const {
    const double step = steps_[from * states_ + to];
    return step < never && hub_.into[from] + hub_.out[to] <= step * (1 + hub_rounding);
  }
  std::size_t count(std::size_t from, std::size_t from_end, std::size_t to,
                    std::size_t to_end) const {
    std::size_t count = 0;
    for (std::size_t row = from; row < from_end; ++row)
      for (std::size_t column = to; column < to_end; ++column)
        count += goes_by_hub(row, column) ? 1 : 0;
    return count;
  }

  std::span<const double> possible_;
  std::span<double> steps_;
  std::size_t places_, states_;
  ChunkHub hub_;
};

}  // namespace

std::optional<ChunkHub> ChunkHub::replace(std::span<const double> possible, std::span<double> steps,
                                          std::size_t places) {
  return HubSearch(possible, steps, places).run();
}

}  // namespace vma
