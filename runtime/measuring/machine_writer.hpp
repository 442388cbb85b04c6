#pragma once

#include "machine/machine_description.hpp"
#include "machine/machine_sources.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace vma {

/// GPUs that follow each other and are alike but for their number: one entry of `gpus` in a file.
/// The first of them, and how many.
std::vector<std::pair<std::size_t, std::size_t>> gpu_entries(const MachineDescription& machine);

/// The machine as the text of a machine file, which `parse_machine` reads back. `sources` are
/// written as they are, in their order. Throws: Error{unsupported} where a file cannot say it:
/// GPUs that are joined by links of several kinds or rates, or hosts by several near or far ones.
std::string machine_text(const MachineDescription& machine,
                         const std::vector<SourcedNumber>& sources);

}  // namespace vma
