#include "placement/auto/use_endings.hpp"

#include "base/units.hpp"
#include "placement/weighing/chunk_worth.hpp"

#include <algorithm>
#include <cmath>

namespace vma::inline v1 {

std::optional<Time> UseEndings::end_of(ChunkId chunk, double demand,
                                       const Snapshot& snapshot) const {
  const ChunkRow& row = snapshot.chunk(chunk);
  if (least_ <= Time::zero() || demand < bytes_s_least || row.bytes == 0) return std::nullopt;
  const double idle = in_seconds(snapshot.now() - row.last_use);
  const double pace = demand * std::exp2(idle / half_life_seconds_);  // When it was used last.
  const double seconds = missed * static_cast<double>(row.bytes) / pace;
  if (seconds > in_seconds(slices * slice)) return std::nullopt;
  return row.last_use +
         std::max(least_, std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds)));
}

void UseEndings::watch(ChunkId chunk, Time end, Time now) {
  const std::int64_t in = end / slice + 1;
  if (index(chunk) >= watched_.size()) watched_.resize(index(chunk) + 1);
  if (watched_[index(chunk)] || in - now / slice >= static_cast<std::int64_t>(slices)) return;
  due_[static_cast<std::size_t>(in) % slices].push_back(chunk);
  watched_[index(chunk)] = true;
}

void UseEndings::take_due(Time now, std::vector<ChunkId>& due) {
  const std::int64_t until = now / slice + 1;
  for (taken_ = std::max(taken_, until - static_cast<std::int64_t>(slices)); taken_ < until;
       ++taken_) {
    std::vector<ChunkId>& those = due_[static_cast<std::size_t>(taken_) % slices];
    for (const ChunkId chunk : those) {
      if (!watched_[index(chunk)]) continue;
      watched_[index(chunk)] = false;
      due.push_back(chunk);
    }
    those.clear();
  }
}

void UseEndings::forget(ChunkId chunk) noexcept {
  if (index(chunk) < watched_.size()) watched_[index(chunk)] = false;
}

}  // namespace vma::inline v1
