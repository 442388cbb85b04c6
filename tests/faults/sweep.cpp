#include "faults/sweep.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace vma {

std::set<Call>& failed_calls() {
  static std::set<Call> calls;
  return calls;
}

LifeOutcome expect_whole(const LifePlan& plan, const std::string& what) {
  const LifeOutcome outcome = Life::live(plan);
  failed_calls().insert(outcome.failed.begin(), outcome.failed.end());
  if (outcome.problems.empty()) return outcome;
  std::string calls;
  for (const int number : plan.fail) {
    const auto place = static_cast<std::size_t>(number);
    if (place < outcome.seen.size()) {
      calls += fmt::format(" {} is {};", number, to_string(outcome.seen[place]));
    }
  }
  ADD_FAILURE() << describe(plan) << ' ' << what << calls << '\n'
                << fmt::format("{}\nerrors thrown:\n{}", fmt::join(outcome.problems, "\n"),
                               fmt::join(outcome.errors, "\n"));
  return outcome;
}

}  // namespace vma
