#pragma once

#include "lab/import/g10_kernels.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace vma {

/// When each kernel of an iteration starts if no access takes longer than its kernel: what a
/// compiler knows that has measured the kernels, as G10's does. The microbatches follow each other
/// as in `add_training`.
class TrainingPlan {
 public:
  /// Requires: the iteration outlives it.
  TrainingPlan(const TrainingIteration& training, std::uint64_t microbatches);

  struct NextUse {
    Time after{0};  ///< From the start of the kernel.
    int stage = 0;
  };
  /// The next use of a weight after this kernel; in the last kernels of an iteration it is one of
  /// the next iteration.
  NextUse next_of_weight(std::uint64_t tensor, std::uint64_t microbatch, std::size_t kernel) const;
  /// The next use of another tensor in the same microbatch. Requires: the kernel uses it, and is
  /// not the last one that does.
  NextUse next_of_tensor(std::uint64_t tensor, std::uint64_t microbatch, std::size_t kernel) const;

 private:
  struct Use {
    Time start{0};
    int stage = 0;
  };
  Time start(std::uint64_t microbatch, std::size_t kernel) const {
    return starts_[microbatch * training_->kernels.size() + kernel];
  }

  const TrainingIteration* training_;
  std::vector<Time> starts_;  // By microbatch and kernel, from the start of the iteration.
  Time length_{0};
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> kernels_;  // Of each tensor.
  std::unordered_map<std::uint64_t, std::vector<Use>> uses_;  // Of each weight, by start.
};

}  // namespace vma
