#pragma once

#include "tools/lab_replay.hpp"

namespace vma {

/// Prints what no policy can stay under with this trace, machine and router, and what plans pay
/// that know the whole trace. Of the command, `policy` and `pacing` say nothing. Returns the exit
/// status. Throws: Error for a trace, machine or router that cannot be had.
int run_bounds(const ReplayCommand& command);

}  // namespace vma
