#include "migrate/gates/backlog.hpp"

#include <algorithm>
#include <optional>

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

/// Up to this reach a stream arrives sooner after it is told than another's arrival is predictable.
/// None if no stream leads the others.
std::optional<nanoseconds> reach_of_followers(std::span<const Backlog> backlogs) {
  const auto leads = [](const Backlog& backlog) {
    return backlog.missed() || backlog.reach() > worth_waiting;
  };
  if (std::ranges::none_of(backlogs, leads)) return std::nullopt;
  const Backlog& longest = *std::ranges::max_element(backlogs, {}, &Backlog::reach);
  // The longest one itself does not follow.
  const nanoseconds less = std::min(longest.error(), longest.reach() - nanoseconds(1));
  return std::max(worth_waiting, less);
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

std::vector<StopStart> schedule_stops(std::span<const Backlog> backlogs, bool may_follow) {
  const nanoseconds most = deepest(backlogs);
  const std::optional<nanoseconds> reach_max =
      may_follow ? reach_of_followers(backlogs) : std::nullopt;
  std::vector<StopStart> starts;
  for (std::size_t i = 0; i < backlogs.size(); ++i) {
    const Backlog& backlog = backlogs[i];
    const bool follows = reach_max && backlog.reach() <= *reach_max && !backlog.missed();
    starts.push_back({i, follows ? most : most - backlog.depth(), follows});
  }
  std::ranges::stable_sort(starts, {}, &StopStart::after);
  std::ranges::stable_partition(starts, [](const StopStart& start) { return !start.follows; });
  nanoseconds group{0};
  for (StopStart& start : starts) {
    if (most > worth_waiting && start.after - group > together) group = start.after;
    start.after = group;
  }
  return starts;
}

PredictedSkew predict_skew(std::span<const Backlog> backlogs, bool may_follow) {
  PredictedSkew most{nanoseconds(0), 0};
  if (backlogs.size() < 2) return most;
  const nanoseconds depth_max = deepest(backlogs);
  const std::vector<StopStart> starts = schedule_stops(backlogs, may_follow);
  // A single one may come when it likes: the others wait for it.
  const bool first_alone = starts[1].follows;
  for (const StopStart& start : std::span(starts).subspan(first_alone ? 1 : 0)) {
    const Backlog& backlog = backlogs[start.index];
    nanoseconds skew = backlog.error();
    if (start.follows) {
      skew = backlog.reach();
    } else if (depth_max <= worth_waiting) {
      skew = std::max(skew, depth_max - backlog.depth());
    }
    if (skew > most.skew) most = {skew, start.index};
  }
  return most;
}

}  // namespace vma
