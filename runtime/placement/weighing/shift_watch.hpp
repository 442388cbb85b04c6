#pragma once

#include "placement/weighing/followed_shifts.hpp"
#include "placement/weighing/outlook.hpp"
#include "placement/weighing/use_shifts.hpp"

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Tells a policy which chunks it should move because their use has shifted, before the averages of
/// the books show that: the shifts, and what came of the moves that followed earlier ones.
class ShiftWatch {
 public:
  struct Limits {
    Time least{0};          ///< How long a shift has to last. 0: none is ever noticed.
    Time most{0};           ///< For how long it is expected to go on at most.
    Time settled_after{0};  ///< When the averages have forgotten what was before a shift.
    double margin = 1;      ///< As that of the policy.
  };

  explicit ShiftWatch(const Limits& limits)
      : limits_(limits), shifts_(limits.margin), followed_(limits.least, limits.settled_after) {}

  /// Takes in a use that is in the books.
  void note(const UseEvent& use, const Snapshot& snapshot);
  /// The shift of the chunk, if it has lasted long enough for this chunk to follow it; otherwise
  /// null. Valid until the next use.
  const UseShifts::Shift* due(ChunkId chunk, const Snapshot& snapshot);
  /// The shift of the chunk, if it has lasted for `least`; otherwise null.
  const UseShifts::Shift* lasting(ChunkId chunk) const {
    return shifts_.lasting(chunk, limits_.least);
  }
  /// For how long a chunk that follows the shift is expected to be right.
  Time expected(const UseShifts::Shift& shift) const;
  /// Whether the use of the chunk goes to and fro too fast for the chunk to follow, so that
  /// averages say nothing of it.
  bool alternates(ChunkId chunk, Time now) const { return followed_.alternates(chunk, now); }
  /// Whether the chunk may make way for one whose use has shifted: nobody uses it where it lies.
  /// Averages say too little about new use.
  bool makes_way(ChunkId chunk, const Snapshot& snapshot) const;
  /// Takes the use from before a shift that was followed out of what the averages expect.
  /// `shifting`: also that from before a shift that lasts.
  void correct(ChunkId chunk, const Snapshot& snapshot, bool shifting, Outlook& outlook) const;

  /// The policy proposes to follow the shift, at this cost.
  void propose(const UseShifts::Shift& shift, PlaceId to, double seconds) {
    followed_.propose(shift, to, seconds);
  }
  void moved(const MoveResult& result, Time now);
  void gone(ChunkId chunk);

 private:
  const Limits limits_;
  UseShifts shifts_;
  FollowedShifts followed_;
};

}  // namespace vma::inline v1
