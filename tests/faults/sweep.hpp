#pragma once

#include "faults/life.hpp"
#include "support/test_run.hpp"

#include <set>
#include <string>

namespace vma {

/// Lives one life and fails the current test with all that was wrong, and with what replays it.
LifeOutcome expect_whole(const LifePlan& plan, const std::string& what = {});

/// Every call that this process has failed so far, of all lives.
std::set<Call>& failed_calls();

}  // namespace vma
