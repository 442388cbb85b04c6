#include "bench/live/beside_process.hpp"

#include "base/clock.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>

extern char** environ;  // NOLINT: POSIX does not declare it in any header.

namespace vma {

BesideProcess::BesideProcess(const std::vector<std::string>& command) : name_(command.front()) {
  int input[2], output[2];
  if (::pipe2(input, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  if (::pipe2(output, O_CLOEXEC) != 0) {
    ::close(input[0]);
    ::close(input[1]);
    throw std::runtime_error("no pipe");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  const int result =
      ::posix_spawnp(&child_, arguments.front(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(input[0]);
  ::close(output[1]);
  to_child_ = input[1];
  from_child_ = output[0];
  if (result != 0) {
    close_pipes();
    throw std::runtime_error(name_ + " could not be started");
  }
}

BesideProcess::~BesideProcess() {
  constexpr std::chrono::seconds patience(10);
  close_pipes();
  if (child_ < 0) return;
  SteadyClock clock;
  const auto ended = [this] { return ::waitpid(child_, nullptr, WNOHANG) != 0; };
  if (poll_until(clock, clock.now() + patience, ended)) return;
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

void BesideProcess::require_running() {
  if (child_ >= 0 && ::waitpid(child_, nullptr, WNOHANG) == 0) return;
  child_ = -1;
  throw std::runtime_error(name_ + " ended while it was to run beside");
}

void BesideProcess::await_line() {
  char letter = 0;
  while (::read(from_child_, &letter, 1) == 1) {
    if (letter == '\n') return;
  }
  throw std::runtime_error(name_ + " ended before it was under way");
}

void BesideProcess::close_pipes() noexcept {
  for (int* const end : {&to_child_, &from_child_}) {
    if (*end >= 0) ::close(*end);
    *end = -1;
  }
}

}  // namespace vma
