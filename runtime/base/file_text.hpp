#pragma once

#include <optional>
#include <string>

namespace vma {

/// All bytes of a file, which may be empty; none if it cannot be read completely.
std::optional<std::string> read_file(const std::string& path);

}  // namespace vma
