#include "migrate/gates/backlog.hpp"

#include <algorithm>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

/// Below it nothing is gained: the observations themselves are off by as much.
constexpr nanoseconds worth_waiting = microseconds(50);
/// Starts that are closer together are merged, since each start costs extra queries.
constexpr nanoseconds together = microseconds(10);

nanoseconds deepest(std::span<const Backlog> backlogs) {
  nanoseconds most{0};
  for (const Backlog& backlog : backlogs) most = std::max(most, backlog.depth());
  return most;
}

}  // namespace

void Backlog::saw(TimePoint at, nanoseconds depth) noexcept {
  if (ever_seen_) {
    const nanoseconds difference = depth > depth_ ? depth - depth_ : depth_ - depth;
    error_ = (error_ + difference) / 2;
  }
  depth_ = depth;
  seen_at_ = at;
  known_ = true;
  ever_seen_ = true;
}

std::vector<StopStart> schedule_stops(std::span<const Backlog> backlogs) {
  const nanoseconds most = deepest(backlogs);
  std::vector<StopStart> starts;
  for (std::size_t i = 0; i < backlogs.size(); ++i) {
    starts.push_back({i, most - backlogs[i].depth()});
  }
  std::ranges::stable_sort(starts, {}, &StopStart::after);
  nanoseconds group{0};
  for (StopStart& start : starts) {
    if (most > worth_waiting && start.after - group > together) group = start.after;
    start.after = group;
  }
  return starts;
}

nanoseconds predict_skew(std::span<const Backlog> backlogs) {
  if (backlogs.size() < 2) return nanoseconds(0);
  const nanoseconds most = deepest(backlogs);
  nanoseconds skew{0};
  for (const Backlog& backlog : backlogs) {
    skew = std::max(skew, backlog.error());
    if (most <= worth_waiting) skew = std::max(skew, most - backlog.depth());
  }
  return skew;
}

}  // namespace vma
