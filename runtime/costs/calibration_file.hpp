#pragma once

#include "driver/driver.hpp"
#include "machine/topology.hpp"

#include <vma/calibration.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace vma {

/// The folder of calibrations: VMART_CACHE_DIR, $XDG_CACHE_HOME/vmart or ~/.cache/vmart, whichever
/// is set first. Empty if none is set.
std::string calibration_folder();

/// Convert a calibration to JSON and back. Errors name `file`. Throws: Error{invalid_argument} if
/// the text is incomplete, of another version, or not a calibration.
std::string to_json(const Calibration& calibration);
Calibration parse_calibration(std::string_view text, const std::string& file);

/// Throws: Error{invalid_argument}, also if the file does not exist.
Calibration read_calibration(const std::string& file);

/// Writes the file atomically: readers and other writers never see a partial file. Only the user
/// may read it. Throws: Error{invalid_argument} that names the file and the reason.
void write_calibration(const std::string& file, const Calibration& calibration);

/// The stored calibration of the machine with this fingerprint, if there is one. An unusable file
/// is ignored with a warning.
std::optional<Calibration> stored_calibration(const std::string& folder,
                                              const std::string& fingerprint);

/// Identifies the machine that a calibration applies to: the driver and its version, names and
/// UUIDs of the GPUs in order, the links between them, and the number of host nodes. One line.
std::string machine_fingerprint(Driver& driver, const Topology& topology);

/// A file name for the machine, such as "calibration-0123456789abcdef.json".
std::string calibration_file_name(const std::string& fingerprint);

}  // namespace vma
