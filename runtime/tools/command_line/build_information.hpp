#pragma once

#include <string>

namespace vma {

/// The commit that the program was built from; null if neither git nor the sources said it.
extern const char* const built_commit;

/// "vmart 0.2.0".
std::string version_text(const std::string& program);
/// One JSON object on one line: what the program was built from and by, what it can do, and the
/// versions of the interfaces that it speaks. docs/reference/versions.md has the members.
std::string version_json(const std::string& program);

}  // namespace vma
