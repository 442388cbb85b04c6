#pragma once

#include "machine/machine_description.hpp"
#include "machine/machine_file.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace vma {

/// Consecutive GPUs that differ only in their number, which form one entry of `gpus` in a file: the
/// index of the first, and the count.
std::vector<std::pair<std::size_t, std::size_t>> gpu_entries(const MachineDescription& machine);

/// The machine as the text of a machine file, which `parse_machine` can read. Writes `sources`
/// unchanged, in their order. Throws: Error{unsupported} if a file cannot express the machine: GPUs
/// with peer links of several kinds or rates, or with several kinds of near or far host links.
std::string machine_text(const MachineDescription& machine,
                         const std::vector<SourcedNumber>& sources);

}  // namespace vma
