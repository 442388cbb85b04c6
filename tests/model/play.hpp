#pragma once

#include "model/model_plan.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace vma {

/// The results of a play.
struct PlayOutcome {
  std::array<std::uint64_t, operation_kinds> operations{};
  std::uint64_t total() const;
  /// Refusals that the model allowed and that occurred.
  std::uint64_t out_of_memory = 0;
  std::uint64_t refused = 0;
  /// The first difference between runtime and model; empty if there is none.
  std::string mismatch;
};

/// Plays one plan: a machine, a runtime, and users who do random operations. Each result is
/// compared with a map from pointers to bytes.
PlayOutcome play(const ModelPlan& plan);

}  // namespace vma
