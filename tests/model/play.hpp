#pragma once

#include "model/model_plan.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace vma {

/// What a play came to.
struct PlayOutcome {
  std::array<std::uint64_t, operation_kinds> operations{};
  std::uint64_t total() const;
  /// Answers that the model said could come, and came.
  std::uint64_t out_of_memory = 0;
  std::uint64_t refused = 0;
  /// Where runtime and model differ first; empty if nowhere.
  std::string mismatch;
};

/// A machine, a runtime on it, and users who do random things with it, each held against what a map
/// from pointers to bytes says.
PlayOutcome play(const ModelPlan& plan);

}  // namespace vma
