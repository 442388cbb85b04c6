#pragma once

#include "machine/machine_description.hpp"
#include "machine/machine_document.hpp"

namespace vma {

/// Reads a machine file. Requires: the document has no problems.
MachineDescription read_machine(const MachineDocument& document);

}  // namespace vma
