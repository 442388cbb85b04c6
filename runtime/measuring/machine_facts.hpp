#pragma once

#include "driver/driver.hpp"
#include "machine/machine_description.hpp"

namespace vma {

/// What the driver says of the machine: all of a description but rates and costs, which are 0, and
/// the memory of host nodes. Of a machine whose driver makes no host memory, one node stands for
/// the host. Throws: Error{no_driver} where there is no GPU.
MachineDescription machine_facts(Driver& driver);

/// Memory of a host node, as the system that we run on says; 0 where it does not.
std::uint64_t system_node_bytes(int node);

}  // namespace vma
