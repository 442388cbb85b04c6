// What placement by the scheduler gains and costs; see bench/placement/, with one file per
// question.
//
//     placement_bench [--filter=REGEX] [--seconds=S] [--benchmark_...]
//
// `--filter` selects cases, like `--benchmark_filter`. `--seconds` is the approximate duration of a
// measurement (3). Each case opens its own runtimes. VMART_BENCH_POLICY sets another policy for the
// cases that let one decide (cost_benefit), such as cost_benefit:shift=0s.

#include "bench/placement/cases.hpp"

#include <string>
#include <vector>

namespace vma {
namespace {

/// Returns Google Benchmark's flags. Throws: std::invalid_argument if the seconds are not a number.
std::vector<std::string> parse_flags(int argc, char** argv) {
  const std::string filter = "--filter=", seconds = "--seconds=";
  std::vector<std::string> rest;
  for (int i = 0; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag.starts_with(filter)) {
      rest.push_back("--benchmark_filter=" + flag.substr(filter.size()));
    } else if (flag.starts_with(seconds)) {
      set_case_seconds(std::stod(flag.substr(seconds.size())));
    } else {
      rest.push_back(flag);
    }
  }
  return rest;
}

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

int run(int argc, char** argv) {
  std::vector<std::string> flags = parse_flags(argc, argv);
  std::vector<char*> arguments;
  for (std::string& flag : flags) arguments.push_back(flag.data());
  arguments.push_back(nullptr);
  return run_benchmarks(static_cast<int>(flags.size()), arguments.data(), register_all);
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run(argc, argv);
}
