#include "lab/import/python_child.hpp"

#include "base/environment.hpp"
#include "base/json.hpp"
#include "base/whole_file.hpp"
#include "machine/shared_folders.hpp"

#include <vma/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

namespace vma {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::string_view needs =
    "this command needs Python 3.10 or newer in PATH, its standard library only, and the Python "
    "package vmart: install it with pip, or name its folder in PYTHONPATH";

// As `python3 -m vmart.lab`, but without the current folder in the path, whose files are not ours
// to run. Any Python can read it.
constexpr const char* prologue = R"(
import sys
if sys.path[:1] == ['']:
    del sys.path[0]
if sys.version_info < (3, 10):
    sys.exit('vmart-lab: python3 is %d.%d; {0}' % tuple(sys.version_info[:2]))
try:
    import vmart.lab
except ImportError as error:
    sys.exit('vmart-lab: python3: %s; {0}' % error)
import runpy
runpy.run_module('vmart.lab', run_name='__main__', alter_sys=True)
)";

std::vector<std::string> command_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"python3", "-c", fmt::format(prologue, needs)});
  return arguments;
}

/// Ours, with our own Python folders at the end of PYTHONPATH.
std::vector<std::string> python_environment() {
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

[[noreturn]] void refuse(ErrorKind kind, const std::string& why) {
  throw Error(kind, "python3", why);
}

[[noreturn]] void refuse_to_start(int failure) {
  refuse(ErrorKind::unsupported, fmt::format("{}; {}", std::strerror(failure), needs));
}

/// Returns 0, or why python3 cannot be started.
int start_child(pid_t& child, std::vector<std::string> arguments,
                const posix_spawn_file_actions_t& files) {
  std::vector<std::string> command = command_of(std::move(arguments));
  std::vector<std::string> environment = python_environment();
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int failure = posix_spawnp(&child, "python3", &files, &attributes, pointers(command).data(),
                                   pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  return failure;
}

/// The status of the child, when it has ended.
int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}

/// Requires: the status is not 0.
std::string failure_text(int status) {
  if (WIFEXITED(status))
    return fmt::format("python3 ended with exit status {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return fmt::format("python3 was ended by signal {} ({})", signal, strsignal(signal));
}

}  // namespace

void become_python(std::vector<std::string> arguments) {
  std::vector<std::string> command = command_of(std::move(arguments));
  std::vector<std::string> environment = python_environment();
  execvpe("python3", pointers(command).data(), pointers(environment).data());
  refuse_to_start(errno);
}

// The outcome goes to a file in memory: of a pipe that nobody reads before the end, the child would
// wait.
PythonChild::PythonChild(std::vector<std::string> arguments) {
  constexpr int outcome_in_child = 3;
  std::array<int, 2> pipe{};
  outcome_ = memfd_create("vmart.lab", MFD_CLOEXEC);
  if (outcome_ < 0 || pipe2(pipe.data(), O_CLOEXEC) != 0)
    refuse(ErrorKind::driver_failure, "no pipe could be opened");
  output_ = pipe[0];
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, pipe[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, outcome_, outcome_in_child);
  arguments.insert(arguments.begin(), fmt::format("--outcome={}", outcome_in_child));
  const int failure = start_child(child_, std::move(arguments), files);
  posix_spawn_file_actions_destroy(&files);
  close(pipe[1]);
  if (failure == 0) return;
  close(output_);
  close(outcome_);
  refuse_to_start(failure);
}

// It has nothing to tidy up, and only this signal is sure to end it.
PythonChild::~PythonChild() {
  if (child_ != 0) {
    kill(child_, SIGKILL);
    wait_for(child_);
  }
  close(output_);
  close(outcome_);
}

std::string PythonChild::output() const {
  return fmt::format("/dev/fd/{}", output_);
}

json::object PythonChild::finish(std::string_view purpose) {
  std::array<char, 4096> skipped{};
  while (read(output_, skipped.data(), skipped.size()) > 0) {
  }
  const int status = wait_for(std::exchange(child_, 0));
  const std::string told = read_file(fmt::format("/proc/self/fd/{}", outcome_)).value_or("");
  json::object outcome;
  if (!told.empty()) outcome = parse_json(told, "vmart.lab --outcome", "python3").as_object();
  if (const json::value* const error = outcome.if_contains("error"))
    refuse(ErrorKind::invalid_argument, std::string(error->as_string()));
  if (status != 0)
    refuse(ErrorKind::invalid_argument, fmt::format("{}: {}", purpose, failure_text(status)));
  return outcome;
}

json::value python_answer(std::vector<std::string> arguments) {
  const std::string purpose = "vmart.lab " + arguments.at(0);
  PythonChild child(std::move(arguments));
  const std::string answer = read_file(child.output()).value_or("");
  child.finish(purpose);
  return parse_json(answer, purpose, "python3");
}

}  // namespace vma
