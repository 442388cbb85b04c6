#pragma once

#include "lab/fidelity/program_pauses.hpp"
#include "lab/fidelity/recorded_run.hpp"
#include "lab/replay/replay.hpp"
#include "lab/replay/replay_machine.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace vma {

struct PredictOptions {
  std::string policy;  ///< Empty: the recording's policy, unless it is from a library.
  Pacing pacing = Pacing::at_once;
  bool rounds = true;           ///< `ReplayOptions::rounds`.
  std::size_t ahead = 1 << 16;  ///< Accesses that may wait at one device before the trace waits.
  /// Override the recording's values, or the runtime's defaults if it has none.
  std::optional<Time> half_life, stall_budget;
  /// If given, the program is a closed loop with these pauses. Requires: `at_once`.
  const ProgramPauses* pauses = nullptr;
};

/// Replays a recorded program on `machine`, with the recorded policy and the limits of its
/// scheduler. Uses only the accesses, the initial places of memory, and the program's own moves.
/// Throws: as `Replay::run`; Error{invalid_argument} if neither the recording nor the options name
/// a policy; as `ProgramPauses::write_loop`.
ReplayReport predict(RecordedRun& run, const ReplayMachine& machine, const PredictOptions& options);

/// One metric of a run, recorded and predicted.
struct Foreseen {
  std::string key;   ///< Such as "total_s".
  std::string name;  ///< For tables.
  double recorded = 0, predicted = 0;
  double bar = 0;  ///< Allowed relative error; 0: not judged.

  /// Relative to the recorded value; not set if only the recorded value is 0.
  std::optional<double> error() const;
  bool within() const;
};

/// Allows relative errors of `bar` for the total time and bytes moved, and `stall_bar` for stalls.
std::vector<Foreseen> compare(const RecordedFacts& facts, const ReplayReport& report, Pacing pacing,
                              double bar, double stall_bar);

}  // namespace vma
