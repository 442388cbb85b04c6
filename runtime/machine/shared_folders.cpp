#include "machine/shared_folders.hpp"

#include <dlfcn.h>

namespace vma {

namespace fs = std::filesystem;

std::vector<fs::path> shared_folders(const std::string& name) {
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(&shared_folders), &library) == 0 ||
      library.dli_fname == nullptr) {
    return {};
  }
  fs::path file = library.dli_fname;
  std::error_code failed;
  // In an executable, this is the name it was called by: a bare name if the shell found it in PATH,
  // or "/proc/self/exe" if a program restarted itself through that link.
  const fs::path itself = "/proc/self/exe";
  if (!file.has_parent_path() || file == itself) file = fs::read_symlink(itself, failed);
  if (failed) return {};
  // Not by a link such as /lib, above which is another folder.
  const fs::path folder = fs::canonical(file.parent_path(), failed);
  if (failed) return {};
  return {folder / "../share/vmart" / name, folder / "../../share/vmart" / name,
          folder / "share/vmart" / name};
}

}  // namespace vma
