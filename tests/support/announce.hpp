#pragma once

#include <string>

namespace vma {

/// What is being played from now on: printed if a failed check of the runtime aborts the process.
void announce(const std::string& text);

}  // namespace vma
