#include "base/nearest_name.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace vma {
namespace {

std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before(to.size() + 1), last(to.size() + 1), row(to.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const bool same = from[i - 1] == to[j - 1];
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[to.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names) {
  constexpr std::size_t far = 4;
  constexpr std::size_t letters_max = 100;  // Longer names are not typos, and take long to compare.
  std::string_view nearest;
  if (name.size() > letters_max) return nearest;
  std::size_t least = std::min(far, name.size() / 2 + 1);
  for (const std::string_view each : names) {
    const bool begins = name.size() >= 3 && (each.starts_with(name) || name.starts_with(each));
    const std::size_t away =
        begins ? std::min<std::size_t>(distance(name, each), 1) : distance(name, each);
    if (away >= least) continue;
    least = away;
    nearest = each;
  }
  return nearest;
}

}  // namespace vma
