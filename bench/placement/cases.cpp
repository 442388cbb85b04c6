#include "bench/placement/cases.hpp"

#include <algorithm>
#include <cstdlib>

namespace vma {
namespace {

double seconds_a_case = 3;  // Set once, before the first case.

}  // namespace

double case_seconds() {
  return seconds_a_case;
}

void set_case_seconds(double seconds) {
  seconds_a_case = seconds;
}

std::string case_policy() {
  const char* policy = std::getenv("VMART_BENCH_POLICY");
  return policy == nullptr || *policy == '\0' ? "cost_benefit" : policy;
}

std::uint64_t bytes_max(std::uint64_t least) {
  return std::max(least, setting("VMART_BENCH_BYTES_MAX", 16 * gibibyte));
}

std::vector<Location> gpus_of(Runtime& runtime) {
  std::vector<Location> gpus;
  for (const Location& at : runtime.locations()) {
    if (at.kind == Location::Kind::gpu) gpus.push_back(at);
  }
  return gpus;
}

}  // namespace vma
