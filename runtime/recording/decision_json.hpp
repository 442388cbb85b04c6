#pragma once

#include "placement/planning/decision.hpp"

#include <string>
#include <string_view>

namespace vma {

/// One line of JSON, without a newline; docs/reference/recordings.md describes the keys. Invalid
/// UTF-8 is replaced by question marks, numbers that are not finite by null.
std::string to_json_line(const Decision& decision);
/// Throws: Error{invalid_argument} that describes the problem.
Decision parse_decision(std::string_view line);

}  // namespace vma
