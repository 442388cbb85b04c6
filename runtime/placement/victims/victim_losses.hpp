#pragma once

#include "placement/weighing/chunk_worth.hpp"
#include "placement/weighing/outlook.hpp"
#include "placement/weighing/shift_watch.hpp"

#include <vma/snapshot.hpp>

#include <cstdint>
#include <vector>

namespace vma::inline v1 {

/// Where chunks would go if they made way, and what their users would lose by that. Searches for
/// victims come to the same chunks for one wish after another, and neither the books nor what is
/// expected changes during a call of the policy: so each chunk is weighed once a call.
class VictimLosses {
 public:
  /// Requires: `shifts` outlives it.
  VictimLosses(const ShiftWatch& shifts, double horizon_seconds)
      : shifts_(shifts), horizon_seconds_(horizon_seconds) {}

  /// A call of the policy begins: forgets what the last one found.
  void begin();

  struct Way {
    PlaceId to{};
    double lost = 0;  ///< Seconds of access within the horizon, of all users.
  };
  /// The way to the next place with room, as `next_place`; null if there is none. Use from before a
  /// shift does not count. Valid until the next call.
  const Way* next(const Snapshot& snapshot, ChunkId chunk, const Room& room);

 private:
  /// The chunk's part of `ways_`, if it was weighed in this call.
  struct Weighed {
    std::uint64_t call = 0;
    std::uint32_t first = 0, count = 0;
  };
  void weigh(const Snapshot& snapshot, ChunkId chunk, Weighed& weighed);

  const ShiftWatch& shifts_;
  const double horizon_seconds_;
  Outlook outlook_;
  std::vector<Weighed> chunks_;
  std::vector<Way> ways_;  // Of each chunk, the fastest place first.
  std::uint64_t call_ = 1;
};

}  // namespace vma::inline v1
