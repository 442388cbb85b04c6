#pragma once

#include "control/control_target.hpp"
#include "placement/planning/decision.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// The decisions about the chunks of one allocation, with one line per proposal and its outcome as
/// the verdict. Newest proposal first, at most `most` lines. Requires: `decisions` are sorted by
/// number. Decisions without places are left out.
std::vector<ControlDecision> explained_moves(std::span<const Decision> decisions,
                                             std::uint64_t chunk_bytes, std::size_t most);

}  // namespace vma
