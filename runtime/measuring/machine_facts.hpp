#pragma once

#include "driver/driver.hpp"
#include "machine/machine_description.hpp"

namespace vma {

/// What the driver reports about the machine: a description in which rates, costs and the memory of
/// host nodes are 0. If the driver does not allocate host memory, one node represents the host.
/// Throws: Error{no_driver} without a GPU.
MachineDescription machine_facts(Driver& driver);

/// Memory of a host node of this system; 0 if unknown.
std::uint64_t system_node_bytes(int node);

}  // namespace vma
