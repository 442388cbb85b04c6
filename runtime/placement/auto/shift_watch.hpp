#pragma once

#include "placement/auto/outlook.hpp"
#include "placement/auto/use_shifts.hpp"

#include <vma/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace vma::inline v1 {

/// Chunks that moved because their use had shifted, before the averages showed it: what each move
/// owes, what it has saved since, and how patient its chunk has to be the next time. A move that
/// did not save what it cost before the use shifted back doubles the time that a shift of this
/// chunk must last; one that did halves it again, down to `least`. How long the use of such a chunk
/// stayed where it was tells how long it may stay where it shifts to.
class FollowedShifts {
 public:
  /// A shift of one chunk has to last at most this many times as long as of others.
  static constexpr int patience_max = 16;
  /// Without a failure for this long, patience is halved.
  static constexpr Time forgiven_after = std::chrono::seconds(30);
  static constexpr std::size_t chunks_max = 65'536;
  /// Use that stayed where it was for less than this is not followed to and fro: a chunk that has
  /// moved stays for a second, by the planner's rule, and would be late at each change.
  static constexpr Time followed_least = std::chrono::milliseconds(1050);

  /// `settled_after`: how long after such a move averages still contain earlier use.
  FollowedShifts(Time least, Time settled_after) : least_(least), settled_after_(settled_after) {}

  /// A move is proposed that costs `owed` seconds, victims included.
  void propose(const UseShifts::Shift& shift, PlaceId to, double owed);
  void moved(const MoveResult& result, Time now);
  /// Takes in a use, of which a move may have saved a part.
  void note(const UseEvent& use, const Snapshot& snapshot);
  void forget(ChunkId chunk);

  /// This shift has ended: the use of the chunk is back where the chunk lies.
  void went_back(const UseShifts::Shift& ended);

  /// For how long a chunk that follows this shift is expected to be right: as long again, but if it
  /// is known how long use stayed before, no longer than that, less the time until the end of the
  /// shift is noticed; and not at all if that was less than `followed_least`. A shift that has
  /// lasted twice as long as use stayed before is like one of which nothing is known.
  Time expected(const UseShifts::Shift& shift) const;
  /// Whether use has lately stayed where the chunk lies for less than `followed_least`, and then
  /// come back. Averages of such use say more of when they are looked at than of what comes.
  bool alternates(ChunkId chunk, Time now) const;
  /// How long a shift of the chunk has to last.
  Time patience(ChunkId chunk, Time now) const;
  /// The use of the chunk has shifted again: judges the last move. Returns `patience`.
  Time judge(ChunkId chunk, Time now);
  /// Whether one more chunk can be followed.
  bool has_room(ChunkId chunk) const { return count_ < chunks_max || find(chunk) != nullptr; }
  /// The users of a chunk since the shift that it followed began, for as long as the averages still
  /// contain earlier use; otherwise empty.
  std::span<const UsedBytes> users(ChunkId chunk, const Snapshot& snapshot) const;
  /// Prefetch: one of these is about to be called.
  void prepare(ChunkId chunk) const {
    if (index(chunk) < chunks_.size()) __builtin_prefetch(&chunks_[index(chunk)]);
  }

 private:
  /// A move, and the users of the chunk since its use shifted.
  struct Step {
    PlaceId from{}, to{};
    Time shifted{0};
    double owed = 0;  // Seconds.
    std::vector<UsedBytes> users;
  };
  struct Followed {
    Step proposed, made;
    Time since{0};                       // When its use shifted to where it lies; 0: not known.
    Time stayed{0};                      // How long it was there the last time; 0: not known.
    Time moved{0}, judged{0};            // When `made` was.
    double saved = 0;                    // Seconds, since then.
    int patience = 1;                    // In multiples of `least_`, at `judged`.
    bool made_it = false, open = false;  // `made` was its last move; it is to be judged.
  };

  Followed* find(ChunkId chunk) const {
    return index(chunk) < chunks_.size() ? chunks_[index(chunk)].get() : nullptr;
  }
  static bool lies_there(const Followed& its, ChunkId chunk, const Snapshot& snapshot);
  bool corrects(const Followed& its, ChunkId chunk, const Snapshot& snapshot) const;

  const Time least_, settled_after_;
  std::vector<std::unique_ptr<Followed>> chunks_;  // By chunk: each use asks for one.
  std::size_t count_ = 0;                          // How many of them.
};

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
  /// Prefetch: one of these is about to be called.
  void prepare(ChunkId chunk) const {
    shifts_.prepare(chunk);
    followed_.prepare(chunk);
  }

 private:
  const Limits limits_;
  UseShifts shifts_;
  FollowedShifts followed_;
};

}  // namespace vma::inline v1
