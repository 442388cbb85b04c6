#pragma once

#include "tools/vmart-lab/lab_replay.hpp"

#include <string>

namespace vma {

struct BoundsCommand {
  ReplayCommand setting;  ///< `policy` and `pacing` are ignored.
  /// Assumes that no device is ever late, so that accesses begin in the order of the trace.
  bool on_time = false;
  std::string lp;  ///< File for the linear program whose optimum is the exact bound; may be empty.
};

/// Prints lower bounds that hold for all policies with this trace, machine and router, and the
/// costs of plans that know the whole trace. Returns the exit status. Throws: Error if a trace,
/// machine or router is unavailable, or if the program is too large or cannot be written.
int run_bounds(const BoundsCommand& command);

}  // namespace vma
