#include "tools/vmart/program_start.hpp"

#include "base/environment.hpp"
#include "base/printable.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace vma {
namespace {

constexpr int not_found = 127;  // As shells have it.
constexpr int not_runnable = 126;

}  // namespace

std::filesystem::path tool_folder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

std::optional<std::string> own_file(const char* name) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  // Of an installation, of a Python package, and of a build tree.
  for (const char* place : {"../" VMART_LIBRARY_FOLDER, "../lib", ".."}) {
    const fs::path file = tool_folder() / place / name;
    if (fs::exists(file, ignored)) return fs::weakly_canonical(file, ignored).string();
  }
  return std::nullopt;
}

void set_variable(const char* name, const std::string& value, bool replace) {
  if (setenv(name, value.c_str(), replace ? 1 : 0) == 0) return;
  throw Error(ErrorKind::out_of_memory, "setenv", fmt::format("no memory to set {}", name));
}

bool is_set(const char* name) {
  const char* const value = environment_variable(name);
  return value != nullptr && *value != '\0';
}

void set_first(const char* list, const std::string& first) {
  set_variable(list, is_set(list) ? first + ":" + environment_variable(list) : first);
}

int become(const char* call, const std::vector<std::string>& program) {
  std::vector<char*> arguments;
  for (const std::string& argument : program) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  fmt::print(stderr, "{}: {}: {}\n", call, printable_lines(program.front()), std::strerror(error));
  return error == ENOENT ? not_found : not_runnable;
}

}  // namespace vma
