#pragma once

#include "lab/import/trace_formats.hpp"

#include <vma/snapshot.hpp>
#include <vma/telemetry.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace vma {

struct TrainedTensor {
  std::uint64_t bytes = 0;
  bool weight = false;
  std::size_t first = 0, last = 0;  ///< The kernels of an iteration that use it, if `used`.
  bool used = false;
};

struct TrainingKernel {
  Time duration{0};
  std::map<std::uint64_t, UseKind> uses;  ///< By tensor.
  int stage = 0;
};

/// One iteration of a training, as traced by G10.
struct TrainingIteration {
  std::unordered_map<std::uint64_t, TrainedTensor> tensors;
  std::vector<TrainingKernel> kernels;

  /// The weights that a kernel uses, in order, so that equal input gives equal output.
  std::vector<std::uint64_t> weights_used() const;
};

/// Reads the kernels and their tensor table. With `stages` above 0, each kernel belongs to the
/// stage in which it begins, of that many with equal time. Throws: Error{invalid_argument}.
TrainingIteration read_iteration(const ConvertInput& input, std::uint64_t stages);

/// Path of the tensor table, which may be compressed. Throws: Error{invalid_argument} if there is
/// none.
std::string tensors_path(const std::string& kernels);

}  // namespace vma
