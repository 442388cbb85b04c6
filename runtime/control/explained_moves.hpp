#pragma once

#include "control/control_target.hpp"
#include "placement/planning/decision.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// The decisions about the chunks of one allocation, one line per wish, with its later outcome as
/// the verdict. Newest wish first, at most `most`. `decisions` are in the order of their numbers;
/// those without places are left out.
std::vector<ControlDecision> explained_moves(std::span<const Decision> decisions,
                                             std::uint64_t chunk_bytes, std::size_t most);

}  // namespace vma
