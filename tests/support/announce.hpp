#pragma once

#include <string>

namespace vma {

/// Sets the text that is printed if a failed check of the runtime aborts the process: what is being
/// played from now on.
void announce(const std::string& text);

}  // namespace vma
