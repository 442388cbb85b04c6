#pragma once

#include "machine/topology.hpp"
#include "migrate/gates/gate_plan.hpp"
#include "migrate/migration/migration_parts.hpp"
#include "migrate/migration/transaction.hpp"

#include <vma/migration.hpp>

#include <functional>
#include <optional>
#include <string>

namespace vma {

/// The call that errors of a live move name.
inline constexpr const char* live_move_call = "vma::migrate_async";

/// How one chunk crosses while its application runs.
enum class Way {
  live,         ///< Copied beside the application, settled in its own context.
  live_beside,  ///< Like `live`, settled in a context of the runtime's own.
  remapped,     ///< Not copied: a clean copy is at the target.
  stopped,      ///< Copied by the copy engine while the work is stopped.
  none,         ///< The streams would never all arrive at a gate.
};

struct WayChoice {
  Way way = Way::live;
  std::string reason;  ///< Why it is not `live`; empty if it is.
  /// Whether the copy of the next chunk may run while the gate closes: it wants a queue too.
  bool overlap = true;
  StopKind stop = StopKind::gate;  ///< All but a gate need to know of no stream.
  /// A gate that does not close soon gives way to a suspension.
  bool gives_way = false;

  WayChoice stopped_instead(const std::string& why) const {
    return {Way::stopped, "stopped: " + why, true, stop, gives_way};
  }
  /// Whether one stop may serve both.
  bool moves_as(const WayChoice& other) const noexcept {
    return way == other.way && stop == other.stop && gives_way == other.gives_way;
  }
};

/// Facts that the choice depends on.
struct WayFacts {
  Place from, to;
  Mode mode = Mode::automatic;
  /// The context on the source GPU in which settling would wait; none if that is not active.
  ContextHandle application{};
  /// A try in that context was given up because a call of ours blocked there.
  bool application_waits = false;
  /// How much of a chunk of this allocation the last live copies found changed, 0 to 1.
  double dirty = 0;
  /// The target already has the bytes.
  bool target_clean = false;
};

/// The table of README.md here. `queues_of` tells a context's hardware queues.
/// Pure.
WayChoice choose_way(const WayFacts& facts, const GatePlan& plan, const Topology& topology,
                     const std::function<int(ContextHandle)>& queues_of);

/// Chooses how each chunk of a live move moves (`choose_way`), by the streams that are attached
/// now. Remembers that a thread has blocked the application's context. Only the thread of the move
/// calls it.
class WayChooser {
 public:
  explicit WayChooser(MigrationParts& parts) : parts_(parts) {}

  WayChoice choose(const Transaction& chunk, Mode mode) const;
  /// Throws: Error{unsupported} if the chunk cannot move in the way that was chosen for it.
  static void require(const WayChoice& choice, const Transaction& chunk, Mode mode);
  /// The next chunks settle in a context of the runtime's own: a thread has blocked that of the
  /// application.
  void leave_application_context() noexcept;
  /// Decides, where both can be, whether the next chunks move at gates or in suspensions. Blocks
  /// and requires: as `Stops::gate_arrives_soon`, once.
  void foresee(const Transaction& chunk);
  /// A gate was given up: where work can be suspended, the next chunks move in suspensions.
  void leave_gates() noexcept { gates_arrive_soon_ = false; }
  /// A chunk has moved.
  void note_moved() noexcept;

 private:
  bool may_suspend(const Transaction& chunk) const;
  StopKind stop_for(const Transaction& chunk) const;

  MigrationParts& parts_;
  std::optional<bool> gates_arrive_soon_;  // Until then no gate is tried where work is suspended.
  int chunks_beside_ = 0;                  // That still settle in a context of the runtime's own.
};

}  // namespace vma
