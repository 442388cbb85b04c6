#pragma once

#include "driver/driver.hpp"
#include "machine/topology.hpp"

#include <string>

namespace vma {

/// What a calibration applies to: the driver with its version, the GPUs by name and UUID in their
/// order, the links between them, and the number of host nodes. One line.
std::string machine_fingerprint(Driver& driver, const Topology& topology);

/// "calibration-0123456789abcdef.json": a file name for the machine.
std::string calibration_file_name(const std::string& fingerprint);

}  // namespace vma
