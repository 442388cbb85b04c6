#pragma once

#include <vma/calibration.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace vma {

/// The folder of calibrations: VMART_CACHE_DIR, else $XDG_CACHE_HOME/vmart, else ~/.cache/vmart.
/// Empty if none of them is set.
std::string calibration_folder();

/// The calibration as JSON, and back. `file` is named in errors. Throws: Error{invalid_argument} if
/// the text is incomplete, of another version, or not a calibration.
std::string to_json(const Calibration& calibration);
Calibration parse_calibration(std::string_view text, const std::string& file);

/// Throws: Error{invalid_argument}, also if the file does not exist.
Calibration read_calibration(const std::string& file);

/// Writes the whole file or nothing: readers and other writers never see a partial file. Only the
/// user may read it. Throws: Error{invalid_argument} that names the file and the reason.
void write_calibration(const std::string& file, const Calibration& calibration);

/// The stored calibration of the machine with this fingerprint; none if there is none. An unusable
/// file also counts as none, with a warning.
std::optional<Calibration> stored_calibration(const std::string& folder,
                                              const std::string& fingerprint);

}  // namespace vma
