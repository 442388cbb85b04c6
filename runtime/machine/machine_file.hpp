#pragma once

#include "machine/machine_description.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// Reads a machine by name ("h200x2") or by path (one that contains '/' or ends in ".json").
///
/// A name is searched in the directory of VMART_MACHINES, then beside the installed library
/// (../share/vmart/machines), then in the source tree that the library was built from. Throws:
/// Error{invalid_argument} that names the file, the position in it and the reason.
MachineDescription load_machine(const std::string& name_or_path);

/// Parses a machine from text; `file` is named in errors.
MachineDescription parse_machine(std::string_view text, const std::string& file);

/// Names that `load_machine` would find, sorted.
std::vector<std::string> machine_names();

}  // namespace vma
