#pragma once

#include "placement/planning/decision.hpp"

#include <string>
#include <string_view>

namespace vma {

/// One line of JSON, without its end; docs/reference/recordings.md describes the keys. Invalid
/// UTF-8 becomes question marks, numbers that are not finite become null.
std::string to_json_line(const Decision& decision);
/// Throws: Error{invalid_argument} that says what is wrong.
Decision parse_decision(std::string_view line);

}  // namespace vma
