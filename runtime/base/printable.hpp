#pragma once

#include <string>
#include <string_view>

namespace vma {

/// Makes foreign text safe for a terminal: replaces control characters, which could steer it, by
/// '?', both those of one byte and those of two (U+0080 to U+009F). The same for line ends, which
/// could forge a line.
std::string printable(std::string_view text);
/// Like `printable`, but keeps line ends.
std::string printable_lines(std::string_view text);

}  // namespace vma
