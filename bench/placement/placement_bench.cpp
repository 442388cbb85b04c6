// What placement by the scheduler gains and costs; see bench/placement/, with one file per
// question.
//
//     placement_bench [--filter=REGEX] [--seconds=S] [--benchmark_...]
//
// `--filter` selects cases, like `--benchmark_filter`. `--seconds` is the approximate duration of a
// measurement (3). Each case opens its own runtimes. VMART_BENCH_POLICY sets another policy for the
// cases that let one decide (cost_benefit), such as cost_benefit:shift=0s.

#include "bench/placement/cases.hpp"

namespace vma {
namespace {

void register_all() {
  register_advise_cases();
  register_tick_cases();
  register_idle_cases();
  register_park_cases();
  register_drift_cases();
  register_flicker_cases();
  register_oversubscribed_cases();
  register_prediction_cases();
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_cases(argc, argv, vma::register_all);
}
