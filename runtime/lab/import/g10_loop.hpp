#pragma once

#include "lab/import/g10_kernels.hpp"
#include "lab/trace/event_order.hpp"

#include <cstdint>

namespace vma {

struct TrainingLoop {
  std::uint64_t iterations = 1;
  std::uint64_t microbatches = 1;  ///< At least 1.
  bool staged = false;             ///< Each stage is a GPU.
  bool hints = false;              ///< Kernels announce the next use of their tensors.
};

/// Adds the iterations as a closed loop, as `convert_g10` describes it.
void add_training(EventOrder& order, const TrainingIteration& training, const TrainingLoop& loop);

}  // namespace vma
