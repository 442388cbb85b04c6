// What live moves cost an application that keeps running; see bench/live/, with one file per
// question.
//
//     live_bench [--filter=REGEX] [--seconds=S] [--beside-process] [--benchmark_...]
//
// `--filter` selects cases, like `--benchmark_filter`. `--seconds` is the approximate duration of a
// case (3). `--beside-process` measures nothing: it moves memory until its standard input is
// closed, beside a measurement in another process. Needs two GPUs, or a simulated machine that has
// them; with one GPU, only the cases to host memory and back run.

#include "bench/live/cases.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

namespace vma {
namespace {

void register_all() {
  live_gpus(1);
  register_batch_cases();
  register_host_cases();
  if (live_gpus(1).size() < 2) return;
  register_stall_cases();
  register_size_cases();
  register_rate_cases();
  register_budget_cases();
  register_drain_cases();
  register_beside_cases();
  register_mode_cases();
  register_kernel_cases();
  register_timeline_cases();
  register_copy_cases();
  register_attach_cases();
}

int run(int argc, char** argv) {
  if (std::find(argv, argv + argc, std::string("--beside-process")) == argv + argc)
    return run_cases(argc, argv, register_all);
  run_beside_another();
  return 0;
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
