#pragma once

#include "driver/driver.hpp"
#include "machine/topology.hpp"

#include <string>

namespace vma {

/// Identifies the machine that a calibration applies to: the driver and its version, names and
/// UUIDs of the GPUs in order, the links between them, and the number of host nodes. One line.
std::string machine_fingerprint(Driver& driver, const Topology& topology);

/// A file name for the machine, such as "calibration-0123456789abcdef.json".
std::string calibration_file_name(const std::string& fingerprint);

}  // namespace vma
