#pragma once

#include <vma/calibration.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace vma {

/// The folder of calibrations: VMART_CACHE_DIR, else $XDG_CACHE_HOME/vmart, else ~/.cache/vmart.
/// Empty where none of them is set.
std::string calibration_folder();

/// The calibration as JSON, and back. `file` is what errors name. Throws: Error{invalid_argument}
/// for what is not whole, of another version, or no calibration.
std::string to_json(const Calibration& calibration);
Calibration parse_calibration(std::string_view text, const std::string& file);

/// Throws: Error{invalid_argument}, which says so where the file is not there.
Calibration read_calibration(const std::string& file);

/// Writes the whole file or nothing: readers and other writers never meet half of one. Only the
/// user may read it. Throws: Error{invalid_argument} that names the file and the reason.
void write_calibration(const std::string& file, const Calibration& calibration);

/// The stored calibration of the machine with this fingerprint; none where there is none. A file
/// that cannot be used is none too, with a warning.
std::optional<Calibration> stored_calibration(const std::string& folder,
                                              const std::string& fingerprint);

}  // namespace vma
