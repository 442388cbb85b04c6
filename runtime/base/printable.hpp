#pragma once

#include <vma/place.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace vma {

/// Makes foreign text safe for a terminal. Replaces control characters, which could control it, by
/// '?': those of one byte, and those of two (U+0080 to U+009F). Also replaces newlines, which could
/// forge a line.
std::string printable(std::string_view text);
/// Like `printable`, but keeps newlines.
std::string printable_lines(std::string_view text);

/// "gpu0", "host1": a place as a shell can take it. `to_string` writes it as C++ and Python do.
std::string place_name(Place at);
/// Writes each "gpu(0)" of a text as `place_name` does.
std::string with_place_names(std::string_view text);
/// "512 B", "96.0 MiB", "1.5 GiB".
std::string bytes_text(double bytes);
/// "1 chunk", "2 chunks".
std::string counted(std::uint64_t count, std::string_view noun);

}  // namespace vma
