#pragma once

#include "placement/auto/path_limits.hpp"
#include "placement/auto/use_endings.hpp"
#include "placement/auto/use_shifts.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace vma::inline v1 {

/// Chunks whose announced use is too far away to act on, and when each is to be considered again.
/// The first 65536: the next hint or use of another one is considered anyway.
class AnnouncedUses {
 public:
  void remember(ChunkId chunk, Time due) {
    forget(chunk);
    if (due_.size() >= most) return;
    due_.emplace(due, chunk);
    due_of_.emplace(chunk, due);
  }
  void forget(ChunkId chunk) {
    const auto found = due_of_.find(chunk);
    if (found == due_of_.end()) return;
    due_.erase({found->second, chunk});
    due_of_.erase(found);
  }
  /// Forgets and returns one that is due, the earliest first.
  std::optional<ChunkId> take_due(Time now) {
    if (due_.empty() || due_.begin()->first > now) return std::nullopt;
    const ChunkId chunk = due_.begin()->second;
    forget(chunk);
    return chunk;
  }

 private:
  static constexpr std::size_t most = 65536;
  std::set<std::pair<Time, ChunkId>> due_;
  std::map<ChunkId, Time> due_of_;
};

/// How many bytes of one chunk each GPU is expected to use within a horizon.
///
/// The short averages say which GPUs use it. How much of that will continue follows from the
/// smaller of the two averages of all GPUs together: the long one while a use is new, the short one
/// as soon as it ends. A hint's `until` ends the horizon; its `next_use` ends it for all except the
/// announced GPU, which is expected to make the announced passes if they begin within the horizon,
/// and not to use the chunk until then.
class Outlook {
 public:
  /// Seconds count only as far as paths hold their GPUs up. Requires: `limits` outlives this.
  void limit_by(const PathLimits& limits) { limits_ = &limits; }
  /// Nobody is expected to use what is not announced and no longer in use. Requires: `endings`
  /// outlives this.
  void end_by(const UseEndings& endings) { endings_ = &endings; }
  /// Reuses its buffers: use one object for many chunks.
  void read(const Snapshot& snapshot, ChunkId chunk, double horizon_seconds,
            const Hint* hint = nullptr);
  /// The use since its shift goes on for that time.
  void read_shift(const Snapshot& snapshot, const UseShifts::Shift& shift, Time lasts);
  /// As many bytes as `read` expects, but used by these GPUs in proportion.
  void share_out(std::span<const UsedBytes> users);

  /// A hint in force has been taken into account.
  bool announced() const { return announced_; }
  /// No GPU is expected to use it.
  bool idle() const { return uses_.empty(); }
  struct Seconds {
    double all = 0;
    double held_up = 0;  ///< As far as they count; all of announced uses, which tell no demand.
  };
  /// Seconds of access if the chunk were at `at`; infinite if one of its users cannot reach that.
  Seconds seconds_at(PlaceId at) const;
  double all_seconds_at(PlaceId at) const;  ///< The same, only all.
  /// The GPU that uses it most; of equals the lowest number.
  PlaceId main_user() const { return main_; }
  /// Where the chunk would go if it had to, regardless of room. None: it is in the last place.
  std::optional<PlaceId> slower_place() const;
  /// Bytes per second of all GPUs, by the short average.
  double demand() const { return demand_; }
  /// Share of the main user in the expected bytes.
  double main_share() const;

 private:
  struct Expected {
    PlaceId device{};
    double bytes = 0;
    double rate = 0;  // Bytes per second at present.
  };
  void announce(const Snapshot& snapshot, ChunkId chunk, const Hint& hint, double horizon_seconds);
  void find_main();

  const PathLimits* limits_ = nullptr;
  const UseEndings* endings_ = nullptr;
  const MachineCosts* costs_ = nullptr;
  std::vector<Expected> uses_;
  PlaceId main_{}, lies_at_{};
  double demand_ = 0;
  bool announced_ = false;
};

}  // namespace vma::inline v1
