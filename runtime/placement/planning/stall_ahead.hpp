#pragma once

#include "placement/planning/planner_limits.hpp"

#include <vma/policy.hpp>
#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace vma {

/// Moves that spend the stall budget of later, because the program is predicted to gain more by
/// them than it loses while it stands. Remembers each such advance, adds up what the moved chunks
/// save, and judges: if they have not saved within a time what the stops cost, the credit shrinks.
///
/// Seconds of all GPUs are added up: a stop costs its duration times the number of GPUs.
class StallAhead {
 public:
  struct Stake {
    ChunkId chunk{};
    PlaceId from{}, to{};
  };
  /// What came of an advance.
  struct Outcome {
    bool paid = false;
    double saved = 0, owed = 0;  ///< Seconds.
    double credit = 0;           ///< Seconds of stops, from now on.
  };

  /// How far the stall budget may be overdrawn, in seconds of stops.
  double credit(const PlannerLimits& limits) const;
  /// Whether moves that are predicted to save `gain` seconds may overdraw the budget with stops of
  /// `stall` seconds.
  bool pays(double gain, double stall, std::size_t gpus, const PlannerLimits& limits) const;

  /// These moves are accepted, and overdraw the budget. Throws: std::bad_alloc; then nothing has
  /// changed.
  void open(std::span<const Stake> stakes, double stall, std::size_t gpus);
  /// The last advance was not made after all.
  void take_back() noexcept;
  /// A move of the chunk to `to` has ended, if `moved` there.
  void ended(ChunkId chunk, PlaceId to, bool moved, Time now, const PlannerLimits& limits) noexcept;
  void forget(ChunkId chunk) noexcept;
  /// Takes in a use, of which an advance may have saved a part.
  void used(const UseEvent& use, const MachineCosts& costs) noexcept;
  /// Judges the advances that have paid, and those whose time is up.
  std::vector<Outcome> judge(Time now, const PlannerLimits& limits);

  /// Whether moves of an advance have not ended.
  bool under_way() const noexcept;
  /// How many advances wait for a judgement.
  std::size_t open_advances() const noexcept { return advances_.size(); }

 private:
  struct Advance {
    double owed = 0, saved = 0;
    std::size_t moves = 0;    // Not ended.
    std::size_t arrived = 0;  // Chunks that have moved.
    Time due{0};              // Once all have ended.
  };
  struct Placed {
    std::uint64_t advance = 0;
    PlaceId from{}, to{};
    bool arrived = false;
  };
  void drop(ChunkId chunk) noexcept;

  std::map<std::uint64_t, Advance> advances_;
  std::map<ChunkId, Placed> stakes_;
  std::uint64_t last_ = 0;
  double trust_ = 1;
};

}  // namespace vma
