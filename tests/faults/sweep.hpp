#pragma once

#include "faults/life.hpp"
#include "support/sanitizer.hpp"
#include "support/test_run.hpp"

#include <set>
#include <string>

namespace vma {

/// Lives one life and fails the current test with all that was wrong, and with what replays it.
LifeOutcome expect_whole(const LifePlan& plan, const std::string& what = {});

/// Every how many-th case is played. Sanitizers take ten times as long and need no more than a
/// sample: each case takes mostly the same paths as the next, one thread at a time.
inline int thinned(int step) {
  return under_sanitizer && !long_run() ? 8 * step : step;
}

/// Where a sweep of every `step`-th case starts: another place in each run.
inline int sweep_start(int step) {
  return static_cast<int>(run_seed() % static_cast<unsigned>(step));
}

/// Every call that this process has failed so far, of all lives.
std::set<Call>& failed_calls();

}  // namespace vma
