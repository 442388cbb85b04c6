#pragma once

#include "tools/vmart-lab/lab_replay.hpp"

#include <string>

namespace vma {

struct BoundsCommand {
  ReplayCommand setting;  ///< Of it `policy` and `pacing` say nothing.
  bool on_time = false;   ///< No device is ever late: accesses begin in the order of the trace.
  std::string lp;         ///< A file for the program whose optimum is the exact bound; or none.
};

/// Prints lower bounds for all policies with this trace, machine and router, and the costs of plans
/// that know the whole trace. Returns the exit status. Throws: Error for a trace, machine or router
/// that is unavailable, or a program that is too large or cannot be written.
int run_bounds(const BoundsCommand& command);

}  // namespace vma
