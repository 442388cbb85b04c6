#pragma once

#include "control/control_target.hpp"
#include "placement/planning/decision.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// What was decided about the chunks of one allocation, a line a wish: what became of it later is
/// its verdict. Newest wish first, at most `most`. `decisions` are in the order of their numbers;
/// those that name no places are left out.
std::vector<ControlDecision> explained_moves(std::span<const Decision> decisions,
                                             std::uint64_t chunk_bytes, std::size_t most);

}  // namespace vma
