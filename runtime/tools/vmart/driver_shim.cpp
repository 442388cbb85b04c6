#include "tools/vmart/driver_shim.hpp"

#include "control/control_socket.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

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

}  // namespace

std::string driver_shim_folder(const std::string& shim) {
  const std::string driver = driver_library();
  const std::size_t number = std::hash<std::string>()(shim + ":" + driver);
  make_own_folder(control_folder());
  const std::string folder = fmt::format("{}/shim-{:016x}", control_folder(), number);
  make_own_folder(folder);
  make_link(driver, folder, needed_name);
  make_link(shim, folder, "libcuda.so.1");
  make_link(shim, folder, "libcuda.so");  // As some ask for it.
  return folder;
}

}  // namespace vma
