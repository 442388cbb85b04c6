#include "tools/vmart-lab/python_module.hpp"

#include "lab/import/python_child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>

namespace vma {
namespace {

namespace fs = std::filesystem;

constexpr int not_started = 1;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Whether a folder of PYTHONPATH, the last of these variables, has the package.
bool is_in_a_folder(const std::vector<std::string>& environment) {
  std::istringstream folders(environment.back().substr(environment.back().find('=') + 1));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code failed;
    if (fs::is_regular_file(fs::path(folder) / "vmart/lab/__main__.py", failed)) return true;
  }
  return false;
}

/// Whether python3 runs and has the package installed.
bool is_installed(std::vector<std::string>& environment) {
  std::vector<std::string> command{"python3", "-c", "import vmart.lab"};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, "python3", &actions, nullptr, pointers(command).data(),
                                  pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed != 0) return false;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

int become_python_module(std::vector<std::string> arguments) {
  std::vector<std::string> environment = python_environment();
  std::string why = "cannot import vmart.lab";
  if (is_in_a_folder(environment) || is_installed(environment)) {
    arguments.insert(arguments.begin(), {"python3", "-m", "vmart.lab"});
    execvpe("python3", pointers(arguments).data(), pointers(environment).data());
    why = std::strerror(errno);
  }
  fmt::print(
      stderr,
      "vmart-lab: python3: {}; this command needs Python 3.10 or newer in PATH, its standard "
      "library only, and the Python package vmart: install it with pip, or name its folder "
      "in PYTHONPATH\n",
      why);
  return not_started;
}

std::string own_program() {
  return fs::read_symlink("/proc/self/exe").string();
}

}  // namespace vma
