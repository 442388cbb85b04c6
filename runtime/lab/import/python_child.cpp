#include "lab/import/python_child.hpp"

#include "base/environment.hpp"
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
#include <filesystem>
#include <string_view>
#include <utility>

namespace vma {
namespace {

namespace fs = std::filesystem;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

constexpr int unknown_status = 127;

/// The exit status of the child, when it has ended.
int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return unknown_status;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

constexpr const char* needs = "needs python3, 3.10 or later, with the package vmart";

[[noreturn]] void refuse(ErrorKind kind, const std::string& why) {
  throw Error(kind, "convert", why);
}

}  // namespace

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

// What it says goes to a file in memory: of a pipe that nobody reads before the end, it would wait.
PythonChild::PythonChild(std::vector<std::string> arguments) {
  std::array<int, 2> pipe{};
  messages_ = memfd_create("vmart.lab", MFD_CLOEXEC);
  if (messages_ < 0 || pipe2(pipe.data(), O_CLOEXEC) != 0)
    refuse(ErrorKind::driver_failure, "no pipe could be opened");
  output_ = pipe[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, messages_, STDERR_FILENO);
  arguments.insert(arguments.begin(), {"python3", "-m", "vmart.lab"});
  std::vector<std::string> environment = python_environment();
  const int failed = posix_spawnp(&child_, "python3", &actions, nullptr, pointers(arguments).data(),
                                  pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  close(pipe[1]);
  if (failed == 0) return;
  close(output_);
  close(messages_);
  refuse(ErrorKind::unsupported, fmt::format("{}, and there is no python3 in PATH", needs));
}

PythonChild::~PythonChild() {
  close(output_);
  if (child_ != 0) {
    kill(child_, SIGTERM);
    wait_for(child_);
  }
  close(messages_);
}

std::string PythonChild::output() const {
  return fmt::format("/dev/fd/{}", output_);
}

std::string PythonChild::messages() const {
  return read_file(fmt::format("/proc/self/fd/{}", messages_)).value_or("");
}

std::string PythonChild::finish() {
  const int status = wait_for(std::exchange(child_, 0));
  std::string text = messages();
  if (status == 0) return text;
  constexpr std::string_view prefix = "vmart.lab: ";  // Of what it has foreseen.
  const bool foreseen = text.starts_with(prefix);
  if (foreseen) text.erase(0, prefix.size());
  if (text.ends_with('\n')) text.pop_back();
  if (!foreseen) text = fmt::format("{}; python3 ended with {}:\n{}", needs, status, text);
  refuse(ErrorKind::invalid_argument, text);
}

std::string python_answer(std::vector<std::string> arguments) {
  PythonChild module(std::move(arguments));
  std::string answer = read_file(module.output()).value_or("");
  module.finish();
  return answer;
}

}  // namespace vma
