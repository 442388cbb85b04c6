#include "tools/vmart/vmart_commands.hpp"

#include "base/environment.hpp"
#include "base/printable.hpp"
#include "control/own_folder.hpp"
#include "costs/calibration_file.hpp"
#include "placement/policies/built_in_policies.hpp"
#include "placement/policies/policy_text.hpp"
#include "runtime/settings.hpp"
#include "tools/vmart/program_start.hpp"

#include <vma/error.hpp>
#include <vma/place.hpp>

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace vma {
namespace {

namespace fs = std::filesystem;

constexpr const char* call = "vmart run";
constexpr const char* needed_name = "libvmart-driver.so";  // By the shim.

/// Where the loader of the system finds the driver's library, as a program would.
std::string driver_library() {
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error(ErrorKind::no_driver, call,
                fmt::format("no NVIDIA driver was found ({})", dlerror()));
  }
  // A program that runs with the shim has called this one.
  void* const behind_shim = dlopen(needed_name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (behind_shim != nullptr) library = behind_shim;
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0) {
    throw Error(ErrorKind::no_driver, call, fmt::format("cannot find libcuda.so.1: {}", dlerror()));
  }
  const std::unique_ptr<char, void (*)(void*)> path(realpath(map->l_name, nullptr), std::free);
  if (path == nullptr) {
    throw Error(ErrorKind::no_driver, call,
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
    throw Error(ErrorKind::unsupported, call, fmt::format("{}: {}", path, std::strerror(errno)));
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
      ErrorKind::unsupported, call,
      fmt::format("--way shim needs a folder for links that other users cannot change, "
                  "with no colon in its path; \"{}\" cannot be used; set XDG_CACHE_HOME to a "
                  "folder that is not in /tmp and to which only this user may write",
                  fmt::join(tried, "\" and \"")));
}

/// A folder in which programs find the shim under the driver's name, and the shim finds the
/// driver's library: for LD_LIBRARY_PATH. It stays, and serves all programs of this user that run
/// with these two libraries. It is beside the calibrations or in `own_folder()`, where no other
/// user can change it. Throws: Error{no_driver}, and Error{unsupported} if there is no such folder.
std::string driver_shim_folder(const std::string& shim) {
  const std::string driver = driver_library();
  const std::size_t number = std::hash<std::string>()(shim + ":" + driver);
  const std::string folder = fmt::format("{}/shim-{:016x}", folder_out_of_reach(), number);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    throw Error(ErrorKind::unsupported, call, fmt::format("{}: {}", folder, std::strerror(errno)));
  }
  if (out_of_reach(folder, geteuid()) != folder) {
    throw Error(ErrorKind::unsupported, call,
                fmt::format("{} is not a folder of this user with mode 0700; remove it", folder));
  }
  make_link(driver, folder, needed_name);
  make_link(shim, folder, "libcuda.so.1");
  make_link(shim, folder, "libcuda.so");  // As some ask for it.
  return folder;
}

std::string own_library(const char* name) {
  if (auto library = own_file(name)) return *std::move(library);
  throw Error(
      ErrorKind::unsupported, call,
      fmt::format("{} is not beside this program ({}); it is built with CUDA's header, as a shared "
                  "library, for x86-64 and AArch64",
                  name, tool_folder().string()));
}

bool is_on(const char* name) {
  return is_set(name) && yes_or_no(environment_variable(name)).value_or(false);
}

/// Throws: Error{invalid_argument}. The library would say so only when the program first allocates.
std::string checked_capacity(const std::string& text) {
  parse_capacities(text, "--capacity");
  return text;
}

/// Throws: Error{invalid_argument}, as above. One of a library is loaded by the program only.
std::string checked_policy(const std::string& text) {
  if (split_policy_text(text).path.empty()) built_in_policies().make(text);
  return text;
}

/// Throws: Error{unsupported} if the system's loader would take the path for several.
std::string checked_preload(const std::string& library) {
  if (library.find_first_of(" :") == std::string::npos) return library;
  throw Error(ErrorKind::unsupported, call,
              fmt::format("{}: LD_PRELOAD takes no path with a space or a colon; use --way shim, "
                          "or move vmart",
                          library));
}

/// Takes out of a list what an outer `vmart run` has put there.
template <typename IsOurs>
void remove(const char* list, const char* separators, IsOurs is_ours) {
  const std::string all = is_set(list) ? environment_variable(list) : "";
  std::string left;
  bool found = false;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find_first_of(separators, begin), all.size());
    const std::string each = all.substr(begin, end - begin);
    begin = end + 1;
    if (is_ours(each)) {
      found = true;
    } else {
      left += (left.empty() ? "" : ":") + each;
    }
  }
  if (found && left.empty()) {
    unsetenv(list);
  } else if (found) {
    set_variable(list, left);
  }
}

/// Two ways at once would each take the other for the driver. The inner one counts.
void remove_outer_ways() {
  remove("LD_PRELOAD", ": ",
         [](const std::string& each) { return each.ends_with("/libvmart-run.so"); });
  remove("LD_LIBRARY_PATH", ":", [](const std::string& each) {
    std::error_code ignored;
    return !each.empty() && fs::exists(fs::path(each) / "libvmart-driver.so", ignored);
  });
}

void set_environment(const RunOptions& options) {
  if (!options.policy.empty()) set_variable("VMART_POLICY", checked_policy(options.policy));
  if (!options.capacity.empty()) set_variable("VMART_CAPACITY", checked_capacity(options.capacity));
  if (!options.smallest.empty()) {
    set_variable("VMART_RUN_MIN_BYTES", std::to_string(parse_size(options.smallest, "--min")));
  }
  remove_outer_ways();
  if (options.way == "preload") {
    set_first("LD_PRELOAD", checked_preload(own_library("libvmart-run.so")));
  } else if (options.children && !*options.children) {
    throw Error(ErrorKind::invalid_argument, call,
                "with --way shim, programs that the program starts run in the same way; use --way "
                "preload for --no-children");
  } else {
    const auto installed = own_file("vmart/libvmart-shim.so");
    set_first("LD_LIBRARY_PATH",
              driver_shim_folder(installed ? *installed : own_library("libvmart-shim.so")));
  }
  if (options.pools) set_variable("VMART_RUN_POOLS", "1");
  if (options.children) set_variable("VMART_RUN_CHILDREN", *options.children ? "1" : "0");
  if (options.excluded) set_variable("VMART_RUN_EXCLUDE", *options.excluded);
  if (options.vmm) set_variable("VMART_RUN_VMM", *options.vmm ? "1" : "0");
  if (options.sites) set_variable("VMART_RUN_SITE_BYTES", "16777216", false);
  if (options.overcommit) set_variable("VMART_RUN_OVERCOMMIT", "1");
  // A scheduler knows what is used, so that the coldest memory leaves a full place.
  const bool makes_room = is_set("VMART_CAPACITY") || is_on("VMART_RUN_OVERCOMMIT");
  if (makes_room) set_variable("VMART_POLICY", "stay_put", false);
  // Without these, a full GPU refuses the program as it would without vmart.
  if (!makes_room) set_variable("VMART_PRESSURE_LIMIT_MS", "0", false);
  set_variable("VMART_CONTROL", "1", false);
  set_variable("VMART_RUN_VERSION", VMART_VERSION);
  set_variable("VMART_RUN_PROGRAM", std::to_string(getpid()));  // It has this id after exec.
}

/// Where the shell would find it; empty if nowhere.
std::string path_of_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* const folders = environment_variable("PATH");
  std::string_view left = folders == nullptr ? "" : folders;
  while (!left.empty()) {
    const std::size_t end = std::min(left.find(':'), left.size());
    const std::string path = std::string(left.substr(0, end)) + "/" + name;
    if (access(path.c_str(), X_OK) == 0) return path;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return {};
}

/// Whether the dynamic section `part` of a file is that of a program, not of a library. The loader
/// itself is a library.
bool is_of_program(std::ifstream& file, const Elf64_Phdr& part) {
  Elf64_Dyn entry{};
  file.seekg(static_cast<std::streamoff>(part.p_offset));
  for (std::uint64_t read = 0; read < part.p_filesz; read += sizeof entry) {
    if (!file.read(reinterpret_cast<char*>(&entry), sizeof entry) || entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_FLAGS_1) return (entry.d_un.d_val & DF_1_PIE) != 0;
  }
  return false;
}

/// Whether it is an ELF program that names no loader, which would load vmart's library.
bool is_static(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr head{};
  if (!file.read(reinterpret_cast<char*>(&head), sizeof head) ||
      std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64) {
    return false;
  }
  for (unsigned each = 0; each < head.e_phnum; ++each) {
    Elf64_Phdr part{};
    file.seekg(static_cast<std::streamoff>(head.e_phoff + each * sizeof part));
    if (!file.read(reinterpret_cast<char*>(&part), sizeof part)) return false;
    if (part.p_type == PT_INTERP) return false;
    // Of a static program at any address (static-pie).
    if (part.p_type == PT_DYNAMIC && !is_of_program(file, part)) return false;
  }
  return true;
}

void warn_of_static(const std::string& program) {
  if (!is_static(path_of_program(program))) return;
  fmt::print(
      stderr,
      "vmart run: {} is linked statically, so vmart cannot get between it and the driver, and "
      "none of its memory moves; link it dynamically\n",
      printable_lines(program));
}

}  // namespace

int run_program(const RunOptions& options) {
  set_environment(options);
  warn_of_static(options.program.front());
  return become(call, options.program);
}

}  // namespace vma
