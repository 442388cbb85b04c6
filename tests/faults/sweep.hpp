#pragma once

#include "faults/life.hpp"
#include "support/sanitizer.hpp"
#include "support/test_run.hpp"

#include <set>
#include <string>

namespace vma {

/// Lives one life and fails the current test with all that was wrong, and with what replays it.
LifeOutcome expect_whole(const LifePlan& plan, const std::string& what = {});

/// Every how many-th case is played. A race checker needs no more than a sample of them: they are
/// stepped, one thread at a time.
constexpr int thinned(int step) {
  return under_thread_sanitizer ? 4 * step : step;
}

/// Every call that this process has failed so far, of all lives.
std::set<Call>& failed_calls();

}  // namespace vma
