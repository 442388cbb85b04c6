#pragma once

#include <vma/location.hpp>
#include <vma/runtime.hpp>
#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vma {

/// A GPU's HBM or a host node.
struct ControlPlace {
  Location at;
  std::uint64_t capacity_bytes = 0;  ///< UINT64_MAX if unknown.
  std::uint64_t used_bytes = 0;      ///< By chunks, including those on their way to it.
  double demand_bytes_s = 0;         ///< Of all GPUs on the chunks here.
  /// It was drained: no chunks come here until `resume`, or until the program that drained it
  /// refills it.
  bool closed = false;
};

struct ControlStatus {
  std::string description;  ///< `Runtime::description`.
  Time uptime{0};
  std::string policy;  ///< In the form that `set_policy` takes.
  bool paused = false;
  std::uint64_t ticks = 0;
  std::uint64_t moves_running = 0, moves_queued = 0;
  std::uint64_t allocations = 0;
  std::vector<ControlPlace> places;
};

struct ControlAllocation {
  std::uint64_t address = 0;  ///< Its first byte.
  std::uint64_t bytes = 0, chunk_bytes = 0;
  std::string tag;
  bool movable = true;
  bool parked = false;
  std::size_t dropped_bytes = 0;  ///< Without memory until it is resumed.
  std::map<Location, std::uint64_t> bytes_at;
  std::vector<Extent> extents;  ///< Filled for queries of one allocation, empty in lists.
};

/// What to move: the allocation that contains `address`, or everything with a tag.
struct ControlMove {
  std::optional<std::uint64_t> address;
  std::string tag;  ///< Used if there is no address.
  Location to;
};

/// What the cost model expects of a move.
struct ControlPrediction {
  std::uint64_t bytes = 0, chunks = 0;  ///< That are elsewhere now.
  Time took{0};
  Time stall{0};                    ///< Of the attached streams, for all chunks together.
  std::uint64_t bytes_no_room = 0;  ///< The part of `bytes` without room at the target now.
};

/// One decision about a chunk.
struct ControlDecision {
  Time at{0};
  std::uint64_t address = 0, bytes = 0;  ///< Of the chunk.
  Location from, to;
  std::string policy;
  std::string reason;   ///< The policy's.
  std::string verdict;  ///< The planner's or the mover's: "moved", "cooldown", "no room".
  double value = 0;     ///< Seconds that it was expected to save.
  Time predicted{0};
  std::optional<Time> took;  ///< Once it has moved.
};

/// Something that happened. Members without meaning for a kind keep their defaults.
struct ControlEvent {
  enum class Kind {
    move_started,
    move_done,
    move_failed,
    operation_done,  ///< A migrate or drain requested through the socket.
    operation_failed,
    decision,
    policy_changed,
    policy_failed,
    paused,
    resumed,
    stepped,
  };
  Kind kind = Kind::move_started;
  std::uint64_t sequence = 0;   ///< Set by the ring; counts from 1.
  Time at{0};                   ///< Since the clock's start.
  std::uint64_t operation = 0;  ///< The operation it belongs to; 0: none.
  std::uint64_t address = 0, bytes = 0;
  std::optional<Location> from, to;
  Time took{0}, stall{0};
  std::string text;  ///< A reason or an error.
};

struct ControlEvents {
  std::vector<ControlEvent> events;
  std::uint64_t next = 0;  ///< Pass it to the next call: the last sequence number seen.
  std::uint64_t lost = 0;  ///< Requested events that had already left the ring.
};

/// The scheduler's counters since the start.
struct SchedulerCounters {
  std::uint64_t ticks = 0;
  std::uint64_t ticks_late = 0;  ///< Begun more than a period late.
  Time tick_time{0};             ///< Spent in all ticks.
  std::uint64_t chunks = 0;
  std::uint64_t moves_planned = 0, moves_done = 0, moves_failed = 0;
  std::map<std::string, std::uint64_t> moves_rejected;  ///< By the planner's reason.
  std::uint64_t policy_failures = 0;  ///< Plans dropped because the policy threw or overran.
  std::uint64_t uses = 0, uses_lost = 0, hints = 0;
  std::uint64_t events_lost = 0, trace_lost = 0;
  double prediction_error = 0;  ///< As `SchedulerStats::prediction_error`.
};

struct ControlStats {
  RuntimeStats runtime;
  SchedulerCounters scheduler;
};

/// What the control socket can request from a runtime. The socket's loop calls it, one call at a
/// time, so no call may block: long operations are started, identified by a number, and end in an
/// event with that number as `operation`. A refusal is an Error; its kind and text go to the peer.
class ControlTarget {
 public:
  virtual ~ControlTarget() = default;

  virtual ControlStatus status() = 0;
  /// Allocations with an address of at least `from`, ascending, at most `most`.
  virtual std::vector<ControlAllocation> allocations(std::uint64_t from, std::size_t most) = 0;
  /// With its extents, for any address inside. Throws: Error{unknown_pointer}.
  virtual ControlAllocation allocation(std::uint64_t address) = 0;

  /// Throws: Error{unknown_pointer, invalid_argument}.
  virtual ControlPrediction predict(const ControlMove& move) = 0;
  /// Returns the operation's number. Throws: as `predict`, and immediate refusals of the move.
  virtual std::uint64_t start_move(const ControlMove& move) = 0;
  /// Moves everything away from `at`. Whatever the outcome, nothing moves there until the next
  /// `resume`. Throws: Error{busy} while paused.
  virtual std::uint64_t start_drain(Location at) = 0;

  virtual std::string policy() = 0;
  virtual std::vector<std::string> known_policies() = 0;
  /// "name:parameter=value,...". Throws: Error{invalid_argument} that lists the known ones.
  virtual void set_policy(const std::string& text) = 0;

  virtual void pause() = 0;
  virtual void resume() = 0;
  /// Starts one tick while paused. Throws: Error{invalid_argument} if not paused.
  virtual std::uint64_t start_step() = 0;

  /// The latest decisions about the chunks of the allocation or chunk at `address`, newest first,
  /// at most `most`. Throws: Error{unknown_pointer}.
  virtual std::vector<ControlDecision> explain(std::uint64_t address, std::size_t most) = 0;
  /// Events with a higher sequence number than `since`, at most `most`.
  virtual ControlEvents events(std::uint64_t since, std::size_t most) = 0;
  virtual ControlStats stats() = 0;
};

}  // namespace vma
