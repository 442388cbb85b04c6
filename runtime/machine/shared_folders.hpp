#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace vma {

/// Folders that may hold files installed beside the program or library: ../share/vmart/NAME, and
/// the same one level further up (for lib/<architecture>/) and down (for the folder of the Python
/// package, which has extensions and share/ itself). They need not exist. A build tree has
/// links to the source tree there, so installed files contain no path of either tree.
std::vector<std::filesystem::path> shared_folders(const std::string& name);

}  // namespace vma
