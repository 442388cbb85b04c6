#pragma once

#include <string>
#include <string_view>

namespace vma {

/// Text of others for a terminal: control characters, which could steer it, become '?', those of
/// one byte and those of two (U+0080 to U+009F). So do ends of lines, which could forge a line.
std::string printable(std::string_view text);
/// The same, but lines stay lines.
std::string printable_lines(std::string_view text);

}  // namespace vma
