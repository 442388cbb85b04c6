#pragma once

#include "lab/fidelity/recorded_run.hpp"
#include "lab/replay/replay.hpp"
#include "lab/replay/replay_machine.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace vma {

struct PredictOptions {
  std::string policy;  ///< Empty: the recording's, unless that is of a library.
  Pacing pacing = Pacing::at_once;
  bool rounds = true;           ///< As `ReplayOptions::rounds`.
  std::size_t ahead = 1 << 16;  ///< Accesses of one device that do not wait for another's.
  /// Instead of the recording's, or of what runtimes have where it has none.
  std::optional<Time> half_life, stall_budget;
};

/// Replays what the program of a recording did on `machine`, under the recorded policy and the
/// limits of its scheduler: nothing of what happened then is used but the accesses, where memory
/// lay at first, and what the program itself moved. Throws: as `Replay::run`; and
/// Error{invalid_argument} for a recording without a policy where none is given.
ReplayReport predict(RecordedRun& run, const ReplayMachine& machine, const PredictOptions& options);

/// One figure of a run, as it was and as the lab has it.
struct Foreseen {
  std::string key;   ///< "total_s".
  std::string name;  ///< For people.
  double recorded = 0, predicted = 0;
  double bar = 0;  ///< What of the recorded it may be off, of those that are judged; 0: any.

  /// Of the recorded; nothing where that is 0 and the predicted is not.
  std::optional<double> error() const;
  bool within() const;
};

/// Total time and bytes moved may be off by `bar`, stalls by `stall_bar`.
std::vector<Foreseen> compare(const RecordedFacts& facts, const ReplayReport& report, Pacing pacing,
                              double bar, double stall_bar);

}  // namespace vma
