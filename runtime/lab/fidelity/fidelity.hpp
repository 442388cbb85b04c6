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
  std::string policy;  ///< Empty: the recording's, unless that is from a library.
  Pacing pacing = Pacing::at_once;
  bool rounds = true;           ///< `ReplayOptions::rounds`.
  std::size_t ahead = 1 << 16;  ///< Accesses of one device that do not wait for another's.
  /// Overrides the recording's value, or the default of runtimes if it has none.
  std::optional<Time> half_life, stall_budget;
};

/// Replays what the program of a recording did on `machine`, under the recorded policy and the
/// limits of its scheduler. It uses only the accesses, where memory was at first, and what the
/// program itself moved. Throws: as `Replay::run`; Error{invalid_argument} for a recording without
/// a policy if none is given.
ReplayReport predict(RecordedRun& run, const ReplayMachine& machine, const PredictOptions& options);

/// One metric of a run, recorded and predicted.
struct Foreseen {
  std::string key;   ///< "total_s".
  std::string name;  ///< For people.
  double recorded = 0, predicted = 0;
  double bar = 0;  ///< Allowed relative error, if it is judged; 0: any.

  /// Relative to the recorded value; none if only that is 0.
  std::optional<double> error() const;
  bool within() const;
};

/// Total time and bytes moved may be off by `bar`, stalls by `stall_bar`.
std::vector<Foreseen> compare(const RecordedFacts& facts, const ReplayReport& report, Pacing pacing,
                              double bar, double stall_bar);

}  // namespace vma
