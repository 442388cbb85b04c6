#pragma once

#include "lab/fidelity/fidelity.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vma {

struct CheckCommand {
  std::vector<std::string> recordings;
  std::string calibration;  ///< A file; empty: the costs that the recording has.
  std::string policy;
  bool timed = false;
  bool rounds = true;
  std::size_t ahead = PredictOptions().ahead;
  std::optional<double> half_life_ms, stall_budget_ms;
  std::uint64_t bad_lines_max = 0;
  std::vector<double> within;  ///< In percent: of time and bytes, of stalls. Empty: any.
  bool json = false;
};

/// Replays recorded runs and prints how far that is from what happened. Returns the exit status: 1
/// if anything is further off than `within`. Throws: Error for a recording, calibration or
/// policy that is unavailable.
int run_check(const CheckCommand& command);

}  // namespace vma
