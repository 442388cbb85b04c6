#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace vma {

/// Where files that are installed beside the program or library may lie: ../share/vmart/NAME of it,
/// or one folder further up (lib/<architecture>/). They need not be there. A build tree has links
/// to the source tree there, so that nothing of either is known to what is installed.
std::vector<std::filesystem::path> shared_folders(const std::string& name);

}  // namespace vma
