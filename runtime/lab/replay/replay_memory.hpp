#pragma once

#include "lab/replay/replay_account.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_moves.hpp"
#include "lab/replay/replay_objects.hpp"
#include "lab/replay/replay_options.hpp"
#include "lab/replay/replay_scheduler.hpp"
#include "lab/trace/trace_event.hpp"
#include "lab/trace/trace_tags.hpp"

#include <vma/snapshot.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vma {

/// The trace's objects in the machine's memory: which chunks they are made of, where these lie, and
/// what waits for room. Begins the moves that the scheduler has accepted, and tells it of their
/// ends. Not thread-safe.
class ReplayMemory {
 public:
  using Index = ReplayObjects::Index;

  /// Requires: all outlive it. `now` is the replay's time.
  ReplayMemory(const ReplayMachine& machine, const ReplayOptions& options,
               ReplayScheduler& scheduler, ReplayMoves& moves, ReplayAccount& account,
               const Time& now);

  /// Requires: the tags outlive it.
  void begin(const TraceTags& tags) noexcept { tags_ = &tags; }

  // --- Events of the trace. All throw Error{invalid_argument} for one that does not fit those
  // --- before it, and return false for one that has to wait.
  bool allocate(const TraceEvent& event);
  /// Where the trace says that a range lies.
  bool place(const TraceEvent& event);
  void free(const TraceEvent& event);
  void set_tag(const TraceEvent& event);
  /// The object that the event names.
  Index require(const TraceEvent& event) const;
  /// The object's chunks go where the policy wants them for its first access, by `device`.
  /// Requires: it has not been placed.
  bool place_at_first_touch(Index object, PlaceId device);

  const ReplayObjects::Object& object(Index index) const { return objects_.at(index); }
  /// It stays, once freed, until as many `unpin` have come.
  void pin(Index index) { ++objects_.at(index).pins; }
  void unpin(Index index);

  /// An allocation or a first touch waits for room, at most until then.
  bool waits_for_room() const noexcept { return wanted_.has_value(); }
  Time room_until() const noexcept { return room_until_; }

  void start_moves();
  void end_move(const ReplayMoves::Ended& ended);

 private:
  bool give_chunks(Index index, std::optional<PlaceId> named, PlaceId device);
  bool find_room();
  void spill();
  std::optional<PlaceId> place_of(TracePlace at) const;

  const ReplayMachine& machine_;
  const ReplayOptions& options_;
  ReplayScheduler& scheduler_;
  ReplayMoves& moves_;
  ReplayAccount& account_;
  const Time& now_;
  const TraceTags* tags_ = nullptr;
  ReplayObjects objects_;
  std::uint32_t allocations_ = 0;

  // Of what waits for room, at most one object.
  std::optional<std::vector<PlaceId>> wanted_;  // By chunk; empty: it fits nowhere.
  std::vector<std::uint64_t> wanted_sizes_;
  Time room_until_ = Time::max();
  bool room_changed_ = false;  // Something has left since room was looked for.
};

}  // namespace vma
