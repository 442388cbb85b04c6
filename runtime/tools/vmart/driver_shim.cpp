#include "tools/vmart/driver_shim.hpp"

#include "control/own_folder.hpp"
#include "costs/calibration_file.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>
#include <vector>

namespace vma {
namespace {

constexpr const char* asked_by = "vmart run";
constexpr const char* needed_name = "libvmart-driver.so";  // By the shim.

/// Where the loader of the system finds the driver's library, as a program would.
std::string driver_library() {
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error(ErrorKind::no_driver, asked_by,
                fmt::format("no NVIDIA driver was found ({})", dlerror()));
  }
  // A program that runs with the shim has called this one.
  void* const behind_shim = dlopen(needed_name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (behind_shim != nullptr) library = behind_shim;
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0) {
    throw Error(ErrorKind::no_driver, asked_by,
                fmt::format("cannot find libcuda.so.1: {}", dlerror()));
  }
  const std::unique_ptr<char, void (*)(void*)> path(realpath(map->l_name, nullptr), std::free);
  if (path == nullptr) {
    throw Error(ErrorKind::no_driver, asked_by,
                fmt::format("{}: {}", map->l_name, std::strerror(errno)));
  }
  return path.get();
}

/// Replaces what has the name, so that a program that starts at this moment finds one or the other.
void make_link(const std::string& target, const std::string& folder, const char* name) {
  const std::string path = fmt::format("{}/{}", folder, name);
  char known[4096];
  const ssize_t length = readlink(path.c_str(), known, sizeof known);
  if (length >= 0 && std::string_view(known, static_cast<std::size_t>(length)) == target) return;
  const std::string made = fmt::format("{}.{}", path, getpid());
  unlink(made.c_str());
  if (symlink(target.c_str(), made.c_str()) != 0 || rename(made.c_str(), path.c_str()) != 0) {
    throw Error(ErrorKind::unsupported, asked_by,
                fmt::format("{}: {}", path, std::strerror(errno)));
  }
}

/// Where the folder of links may lie. The first choice stays when the user logs out. No other user
/// can change the path, because programs search it for libraries as long as they and their children
/// run.
std::string folder_out_of_reach() {
  std::vector<std::string> tried;
  const mode_t before = umask(022);
  for (const std::string& folder : {calibration_folder(), own_folder()}) {
    tried.push_back(folder);
    if (!folder.starts_with('/')) continue;
    std::error_code ignored;  // The check below finds what is wrong.
    std::filesystem::create_directories(folder, ignored);
    const auto real = out_of_reach(folder, geteuid());
    // The system's loader would take such a path for several.
    if (real && real->find_first_of(":;") == std::string::npos) {
      umask(before);
      return *real;
    }
  }
  umask(before);
  throw Error(
      ErrorKind::unsupported, asked_by,
      fmt::format("--way shim needs a folder for links that other users cannot change, "
                  "with no colon in its path; \"{}\" cannot be used; set XDG_CACHE_HOME to a "
                  "folder that is not in /tmp and to which only this user may write",
                  fmt::join(tried, "\" and \"")));
}

}  // namespace

std::string driver_shim_folder(const std::string& shim) {
  const std::string driver = driver_library();
  const std::size_t number = std::hash<std::string>()(shim + ":" + driver);
  const std::string folder = fmt::format("{}/shim-{:016x}", folder_out_of_reach(), number);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    throw Error(ErrorKind::unsupported, asked_by,
                fmt::format("{}: {}", folder, std::strerror(errno)));
  }
  if (out_of_reach(folder, geteuid()) != folder) {
    throw Error(ErrorKind::unsupported, asked_by,
                fmt::format("{} is not a folder of this user with mode 0700; remove it", folder));
  }
  make_link(driver, folder, needed_name);
  make_link(shim, folder, "libcuda.so.1");
  make_link(shim, folder, "libcuda.so");  // As some ask for it.
  return folder;
}

}  // namespace vma
