#pragma once

#include "lab/fidelity/fidelity.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vma {

struct CheckCommand {
  std::vector<std::string> recordings;
  std::string calibration;  ///< A file. If empty, the costs in the recording apply.
  std::string policy;
  bool timed = false;
  bool pauses = false;  ///< Of GPUs between accesses, as in the recording itself or in `program`.
  std::string program;  ///< A recording of the same program. If empty, none.
  bool rounds = true;
  std::size_t ahead = PredictOptions().ahead;
  std::optional<double> half_life_ms, stall_budget_ms;
  std::uint64_t bad_lines_max = 0;
  /// Percent: for time and bytes, and for stalls. Empty accepts any difference.
  std::vector<double> within;
  bool json = false;
};

/// Replays recorded runs and prints how much the results differ from what happened. Returns the
/// exit status: 1 if any difference exceeds `within`. Throws: Error if a recording, calibration or
/// policy is unavailable.
int run_check(const CheckCommand& command);

}  // namespace vma
