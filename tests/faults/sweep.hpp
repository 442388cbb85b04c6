#pragma once

#include "faults/life.hpp"

#include <cstdint>
#include <set>
#include <string>

namespace vma {

/// The seed of this run: VMART_SEED, else 1. What is chosen at random follows from it.
std::uint64_t run_seed();
/// VMART_LONG=1 asks for everything where a short run takes a sample.
bool long_run();

/// Lives one life and fails the current test with all that was wrong, and with what replays it.
LifeOutcome expect_whole(const LifePlan& plan, const std::string& what = {});

/// Every call that this process has failed so far, of all lives.
std::set<Call>& failed_calls();

}  // namespace vma
