#pragma once

#include "machine/machine_description.hpp"
#include "machine/machine_schema.hpp"

#include <boost/json/object.hpp>

namespace vma {

/// Reads a machine file, and adds to `problems` the contradictions between values that are valid
/// individually: counts that do not match, tables without a cell for each size, rates without a
/// link. The description is complete if there are none; its costs are 0 if the file names another
/// machine for them. Requires: `check_schema` reports no problems.
MachineDescription read_machine(const boost::json::object& file, MachineProblems& problems);

}  // namespace vma
