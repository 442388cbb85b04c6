#pragma once

#include "machine/machine_description.hpp"
#include "machine/machine_sources.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace vma {

/// Consecutive GPUs that differ only in their number: one entry of `gpus` in a file. Index of the
/// first, and the count.
std::vector<std::pair<std::size_t, std::size_t>> gpu_entries(const MachineDescription& machine);

/// The machine as the text of a machine file, which `parse_machine` can read. `sources` are written
/// unchanged, in their order. Throws: Error{unsupported} if a file cannot express it: GPUs joined
/// by links of several kinds or rates, or hosts by several near or far ones.
std::string machine_text(const MachineDescription& machine,
                         const std::vector<SourcedNumber>& sources);

}  // namespace vma
