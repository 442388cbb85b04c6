#pragma once

#include "faults/life.hpp"
#include "support/sanitizer.hpp"
#include "support/test_run.hpp"

#include <set>
#include <string>

namespace vma {

/// Runs one life. Fails the current test with all problems found and with what replays the life.
LifeOutcome expect_whole(const LifePlan& plan, const std::string& what = {});

/// Runs only every n-th case. Sanitizers take ten times as long, and a sample is enough for them:
/// most cases take the same paths as the next one, on one thread at a time.
inline int thinned(int step) {
  return under_sanitizer && !long_run() ? 8 * step : step;
}

/// Where a sweep of every `step`-th case starts: elsewhere in each run.
inline int sweep_start(int step) {
  return static_cast<int>(run_seed() % static_cast<unsigned>(step));
}

/// All calls that this process has failed so far, in all lives.
std::set<Call>& failed_calls();

}  // namespace vma
