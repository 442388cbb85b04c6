#include "tools/vmart-lab/report_start.hpp"

#include "base/environment.hpp"
#include "machine/shared_folders.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace vma {
namespace {

namespace fs = std::filesystem;

/// The module has printed what is missing. Must equal `MISSING` in its `__main__.py`.
constexpr int libraries_missing = EX_UNAVAILABLE;
constexpr int not_run = 127;

/// The environment, with our folders appended to PYTHONPATH.
std::vector<std::string> environment() {
  const char* const set = environment_variable("PYTHONPATH");
  std::string path = set == nullptr ? "" : set;
  for (const fs::path& folder : shared_folders("python")) {
    std::error_code failed;
    if (!fs::is_directory(folder, failed)) continue;
    if (!path.empty()) path += ':';
    path += folder.lexically_normal().string();
  }
  std::vector<std::string> values;
  for (char** each = environ; *each != nullptr; ++each) {
    if (!std::string(*each).starts_with("PYTHONPATH=")) values.emplace_back(*each);
  }
  values.push_back("PYTHONPATH=" + path);
  return values;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Runs python3 with these arguments and returns its exit status.
int run_python(std::vector<std::string> arguments, bool quiet) {
  arguments.insert(arguments.begin(), "python3");
  std::vector<std::string> values = environment();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (quiet) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  pid_t child = 0;
  const int failed = posix_spawnp(&child, "python3", &actions, nullptr, pointers(arguments).data(),
                                  pointers(values).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return not_run;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return not_run;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

bool start_report(const std::string& folder) {
  const auto say_how = [&] {
    fmt::print(stderr,
               "no report: python3 cannot import vmart.lab and its dependencies; install them and "
               "run python3 -m vmart.lab report {}\n",
               folder);
    return true;
  };
  if (run_python({"-c", "import vmart.lab"}, true) != 0) return say_how();
  const int status = run_python({"-m", "vmart.lab", "report", folder}, false);
  if (status == libraries_missing) return say_how();
  if (status != 0) fmt::print(stderr, "vmart-lab: the report failed with {}\n", status);
  return status == 0;
}

}  // namespace vma
