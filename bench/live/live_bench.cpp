// What live moves cost an application that keeps running; see bench/live/, with one file per
// question.
//
//     live_bench [--filter=REGEX] [--seconds=S] [--beside-process] [--benchmark_...]
//
// `--filter` selects cases, like `--benchmark_filter`. `--seconds` is the approximate duration of a
// case (3). `--beside-process` measures nothing: it moves memory until its standard input is
// closed, beside a measurement in another process. Needs two GPUs, or a simulated machine that has
// them; with one GPU, only the cases of batches run, to host memory and back.

#include "bench/live/cases.hpp"

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

namespace vma {
namespace {

struct Flags {
  std::vector<std::string> rest;  ///< Flags for Google Benchmark, after the program's name.
  bool beside_process = false;
};

/// Throws: std::invalid_argument if the seconds are not a number.
Flags parse_flags(int argc, char** argv) {
  const std::string filter = "--filter=", seconds = "--seconds=";
  Flags flags;
  for (int i = 0; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--beside-process") {
      flags.beside_process = true;
    } else if (flag.starts_with(filter)) {
      flags.rest.push_back("--benchmark_filter=" + flag.substr(filter.size()));
    } else if (flag.starts_with(seconds)) {
      set_case_seconds(std::stod(flag.substr(seconds.size())));
    } else {
      flags.rest.push_back(flag);
    }
  }
  return flags;
}

void register_all() {
  live_gpus(1);
  register_batch_cases();
  if (live_gpus(1).size() < 2) return;
  register_stall_cases();
  register_size_cases();
  register_rate_cases();
  register_budget_cases();
  register_drain_cases();
  register_host_cases();
  register_beside_cases();
  register_mode_cases();
  register_kernel_cases();
  register_timeline_cases();
  register_copy_cases();
  register_attach_cases();
}

int run(int argc, char** argv) {
  Flags flags = parse_flags(argc, argv);
  if (flags.beside_process) {
    run_beside_another();
    return 0;
  }
  std::vector<char*> arguments;
  for (std::string& flag : flags.rest) arguments.push_back(flag.data());
  arguments.push_back(nullptr);
  return run_benchmarks(static_cast<int>(flags.rest.size()), arguments.data(), register_all);
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  int status = 1;
  try {
    status = vma::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  vma::close_live_runtime();
  return status;
}
