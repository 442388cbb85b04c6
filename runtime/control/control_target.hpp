#pragma once

#include "control/selector.hpp"

#include <vma/place.hpp>
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
  Place at;
  std::uint64_t capacity_bytes = 0;  ///< UINT64_MAX if unknown.
  std::uint64_t used_bytes = 0;      ///< Includes chunks that are being moved there.
  double demand_bytes_s = 0;         ///< All GPUs' demand for the chunks here.
  /// Whether the place was drained: no chunks move here until `resume`, or until the program that
  /// drained it refills it.
  bool closed = false;
};

struct ControlStatus {
  std::string description;  ///< `Runtime::description`.
  Time uptime{0};
  std::string policy;  ///< In the syntax of `set_policy`.
  std::string held;    ///< `SchedulerStats::moves_held`.
  bool paused = false;
  std::uint64_t ticks = 0;
  std::uint64_t moves_running = 0, moves_queued = 0;
  std::uint64_t allocations = 0;
  std::vector<ControlPlace> places;
  /// Of the handles of memory that the program maps itself: those that vmart serves, and those that
  /// were left to the driver.
  std::uint64_t backing_bytes = 0, passed_bytes = 0;
  /// Moves by `start_move` that have not ended.
  struct Operation {
    std::uint64_t operation = 0;
    Place to;
    std::uint64_t bytes = 0, bytes_done = 0;  ///< Of all allocations; of those that have ended.
    Time running{0};
  };
  std::vector<Operation> operations{};
};

struct ControlAllocation {
  std::uint64_t address = 0;  ///< Address of the first byte.
  std::uint64_t bytes = 0, chunk_bytes = 0;
  std::string tag;
  bool movable = true;
  bool parked = false;
  std::size_t dropped_bytes = 0;  ///< Bytes without memory until they are resumed.
  std::map<Place, std::uint64_t> bytes_at;
  std::vector<Extent> extents;  ///< Set by queries of one allocation; empty in lists.
  std::string site{};           ///< Where the program allocated it; empty if unknown.
};

/// What to move, and to where.
struct ControlMove {
  std::vector<Selector> what;
  Place to;
};

/// What the selectors of a request have selected: all of it, once, from one list of allocations.
struct ControlSelection {
  struct One {
    std::uint64_t address = 0, bytes = 0;
    std::string tag;
  };
  static constexpr std::size_t first_max = 512;
  std::uint64_t count = 0, bytes = 0;
  std::vector<One> first;  ///< In ascending order of addresses, at most `first_max`.
};

/// A part of what was selected, in ascending order of addresses.
struct ControlPage {
  ControlSelection selected;
  std::vector<ControlAllocation> allocations;
  bool more = false;  ///< Whether others follow.
};

struct ControlStarted {
  std::uint64_t operation = 0;
  ControlSelection selected;
};

/// The cost model's prediction for a move.
struct ControlPrediction {
  std::uint64_t bytes = 0, chunks = 0;  ///< Those that are elsewhere now.
  Time took{0};
  Time stall{0};                    ///< Of the attached streams, for all chunks together.
  std::uint64_t bytes_no_room = 0;  ///< The part of `bytes` for which the target has no room now.
  ControlSelection selected;
};

/// One decision about a chunk.
struct ControlDecision {
  Time at{0};
  std::uint64_t address = 0, bytes = 0;  ///< Of the chunk.
  Place from, to;
  std::string policy;
  std::string reason;   ///< From the policy.
  std::string verdict;  ///< From the planner or migrator: "moved", "cooldown", "no room".
  double value = 0;     ///< Expected saving in seconds.
  Time predicted{0};
  std::optional<Time> took;  ///< Set once the chunk has moved.
  std::uint64_t times = 1;   ///< How often it was refused so, until `last`.
  Time last{0};
};

/// An event. Members that do not apply to its kind keep their defaults.
struct ControlEvent {
  enum class Kind {
    move_started,
    move_done,
    move_failed,
    operation_done,  ///< A migrate, drain or capacity requested through the socket.
    operation_failed,
    decision,
    policy_changed,
    policy_failed,
    paused,
    resumed,
    stepped,
  };
  Kind kind = Kind::move_started;
  std::uint64_t sequence = 0;   ///< Set by the ring; starts at 1.
  Time at{0};                   ///< Since the clock's start.
  std::uint64_t operation = 0;  ///< The operation that it belongs to; 0 for none.
  std::uint64_t address = 0, bytes = 0;
  std::optional<Place> from, to;
  Time took{0}, stall{0};
  StopKind stop = StopKind::none;  ///< What stopped the work.
  std::string text;                ///< A reason or an error.
  std::uint64_t times = 1;         ///< How often it has occurred: a refusal that is repeated.
};

struct ControlEvents {
  std::vector<ControlEvent> events;
  std::uint64_t next = 0;  ///< The last sequence number seen; pass it to the next call.
  std::uint64_t lost = 0;  ///< Requested events that were no longer in the ring.
};

struct ControlStats {
  RuntimeStats runtime;
  SchedulerStats scheduler;
};

/// What the control socket can request from a runtime. The socket's loop calls it, one call at a
/// time, so no call may block: long operations are started, get a number, and end in an event with
/// that number as `operation`. Refusals are Errors; their kind and text are sent to the peer.
class ControlTarget {
 public:
  virtual ~ControlTarget() = default;

  virtual ControlStatus status() = 0;
  /// At most `most` allocations with an address of at least `from`, in ascending order.
  virtual std::vector<ControlAllocation> allocations(std::uint64_t from, std::size_t most) = 0;
  /// The same for those that `what` selects now. Throws: like `resolve`, and
  /// Error{invalid_argument} for a place that the runtime does not have.
  virtual ControlPage select(const std::vector<Selector>& what, std::uint64_t from,
                             std::size_t most) = 0;
  /// The allocation around an address, with its extents. Throws: Error{unknown_pointer}.
  virtual ControlAllocation allocation(std::uint64_t address) = 0;

  /// Throws: like `select`.
  virtual ControlPrediction predict(const ControlMove& move) = 0;
  /// Throws: like `predict`, and if the move of one of the allocations is refused at once; then
  /// nothing moves.
  virtual ControlStarted start_move(const ControlMove& move) = 0;
  /// Moves everything away from `at`. Whatever the outcome, nothing moves there until the next
  /// `resume`. Throws: Error{busy} while paused.
  virtual std::uint64_t start_drain(Place at) = 0;
  /// Limits what the runtime has at `at` from now on; UINT64_MAX removes the limit. What is above
  /// it moves away, the coldest first. Throws: Error{busy} while paused.
  virtual std::uint64_t start_capacity(Place at, std::uint64_t bytes) = 0;

  virtual std::string policy() = 0;
  virtual std::vector<std::string> known_policies() = 0;
  /// `text` is "name:parameter=value,...". Throws: Error{invalid_argument} that lists the known
  /// policies.
  virtual void set_policy(const std::string& text) = 0;

  virtual void pause() = 0;
  virtual void resume() = 0;
  /// Starts one tick while paused. Throws: Error{invalid_argument} if not paused.
  virtual std::uint64_t start_step() = 0;

  /// Why the chunk around the address lies where it lies now, in lines for people.
  virtual std::vector<std::string> explain_now(std::uint64_t address) = 0;
  /// At most `most` decisions about the chunks of the allocation or chunk at `address`, newest
  /// first. Throws: Error{unknown_pointer}.
  virtual std::vector<ControlDecision> explain(std::uint64_t address, std::size_t most) = 0;
  /// At most `most` events with a sequence number higher than `since`.
  virtual ControlEvents events(std::uint64_t since, std::size_t most) = 0;
  virtual ControlStats stats() = 0;
};

}  // namespace vma
