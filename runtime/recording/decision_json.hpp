#pragma once

#include "placement/planning/decision.hpp"

#include <string>
#include <string_view>

namespace vma {

/// One line of JSON, without its end; docs/reference/recordings.md has the keys. Bytes that are no
/// UTF-8 are question marks, numbers that are not finite are null.
std::string to_json_line(const Decision& decision);
/// Throws: Error{invalid_argument} that says what is wrong.
Decision parse_decision(std::string_view line);

}  // namespace vma
