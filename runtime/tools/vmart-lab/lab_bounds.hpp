#pragma once

#include "tools/vmart-lab/lab_replay.hpp"

#include <string>

namespace vma {

struct BoundsCommand {
  ReplayCommand setting;  ///< Of it `policy` and `pacing` say nothing.
  bool on_time = false;   ///< No device is ever late: accesses begin in the order of the trace.
  std::string lp;         ///< A file for the program whose optimum is the exact bound; or none.
};

/// Prints what no policy can stay under with this trace, machine and router, and what plans pay
/// that know the whole trace. Returns the exit status. Throws: Error for a trace, machine or router
/// that cannot be had, or a program that is too large or cannot be written.
int run_bounds(const BoundsCommand& command);

}  // namespace vma
