#pragma once

#include <span>
#include <string>
#include <vector>

namespace vma {

/// What runs were recorded on one driver, model of GPU and number of them.
struct RecordedRuns {
  const char* driver;
  const char* gpu;
  int gpus;  ///< In one machine.
  int rows;  ///< How many without a failure docs/reference/support.md has.
  const char* frameworks;
};

// clang-format off
/// docs/support.py writes these lines from docs/measurements/. The number is that of the newest
/// driver whose calls `vmart run` knows, such as 13050 for CUDA 13.5.
constexpr RecordedRuns recorded_runs[] = {
// recorded:begin
    {"580.159.04", "NVIDIA H100 80GB HBM3", 2, 2, ""},
    {"580.159.04", "NVIDIA H200", 1, 2, ""},
    {"580.159.04", "NVIDIA H200", 2, 17, "CUDA C++, nvcc 13.0; PyTorch 2.11.0; Triton 3.6.0; CuPy 14.2.0; JAX 0.11.2; Numba 0.68.0; transformers 5.17.0; NCCL 2.28.9; NVIDIA's cuda-samples 13.0; PyTorch's tests 2.9.1"},
    {"580.159.04", "NVIDIA H200", 4, 5, ""},
};
constexpr int newest_known_cuda = 13050;
// recorded:end
// clang-format on

/// What `vmart doctor` compares with the recorded runs.
struct SupportQuestion {
  std::string driver;             ///< `Driver::description`: "CUDA 13.0, driver 580.159.04".
  std::vector<std::string> gpus;  ///< Their names.
  bool mig = false;               ///< One of them is a slice.
};

/// The class of a machine; docs/reference/support.md says what each means.
struct Support {
  std::string name;  ///< "tested", "expected" or "refused".
  std::string why;
  std::string frameworks;  ///< Those of the recorded runs, if it is tested.
};

Support support_of(const SupportQuestion& machine,
                   std::span<const RecordedRuns> recorded = recorded_runs);

}  // namespace vma
