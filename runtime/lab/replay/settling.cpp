#include "lab/replay/settling.hpp"

#include "base/vectors.hpp"

#include <cmath>

namespace vma {
namespace {

struct Stretch {
  Time begin{0};
  double slowdown = 0;
};

/// The windows with accesses that lie entirely in the phase. The last phase ends with the replay,
/// as does the last window.
std::vector<Stretch> stretches(const ReplayReport& report, Time begin, Time end) {
  std::vector<Stretch> found;
  // The first window that begins at or after the mark.
  auto number =
      static_cast<std::size_t>((begin - report.begin + report.window - Time(1)) / report.window);
  for (; number < report.windows.size(); ++number) {
    const Time from = report.begin + static_cast<Time::rep>(number) * report.window;
    if (end < Time::max() && from + report.window > end) break;
    const ReplayWindow& window = report.windows[number];
    if (window.local_s > 0) found.push_back({from, window.access_s / window.local_s});
  }
  return found;
}

std::optional<Time> settling_time(const std::vector<Stretch>& phase, Time mark) {
  if (phase.size() < settling_windows_min) return std::nullopt;
  const std::size_t last_quarter = phase.size() - phase.size() / 4;
  std::vector<double> last;
  for (std::size_t i = last_quarter; i < phase.size(); ++i) last.push_back(phase[i].slowdown);
  const double level = median(std::move(last));
  std::size_t first = phase.size();
  while (first > 0 && std::abs(phase[first - 1].slowdown - level) <= settled_within * level)
    --first;
  if (first > last_quarter) return std::nullopt;
  return first == 0 ? Time::zero() : phase[first].begin - mark;
}

}  // namespace

std::vector<std::optional<Time>> settling_times(const ReplayReport& report) {
  std::vector<std::optional<Time>> times;
  for (std::size_t i = 0; i < report.marks.size(); ++i) {
    const Time mark = report.marks[i].first;
    const bool last = i + 1 == report.marks.size();
    const Time end = last ? Time::max() : report.marks[i + 1].first;
    times.push_back(settling_time(stretches(report, mark, end), mark));
  }
  return times;
}

}  // namespace vma
