#pragma once

#include <string>
#include <string_view>

namespace vma {

/// Makes foreign text safe for a terminal. Replaces control characters, which could control it, by
/// '?': those of one byte, and those of two (U+0080 to U+009F). Also replaces newlines, which could
/// forge a line.
std::string printable(std::string_view text);
/// Like `printable`, but keeps newlines.
std::string printable_lines(std::string_view text);

}  // namespace vma
