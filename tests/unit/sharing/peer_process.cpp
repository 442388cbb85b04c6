#include "unit/sharing/peer_process.hpp"

#include "base/clock.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>

namespace vma {
namespace {

constexpr auto peer_limit = std::chrono::minutes(2);

/// tests/mutation names one with a mutant.
std::string program() {
  const char* const named = std::getenv("SHARE_PEER");
  return named != nullptr ? named : VMART_SHARE_PEER;
}

}  // namespace

PeerProcess::PeerProcess(std::vector<std::string> arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // A test notices by the answer that the process has ended.
  int to[2] = {-1, -1};
  int from[2] = {-1, -1};
  EXPECT_EQ(pipe2(to, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(from, O_CLOEXEC), 0);
  input_ = Descriptor(to[1]);
  output_ = Descriptor(from[0]);
  const Descriptor its_input(to[0]), its_output(from[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, its_input.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, its_output.get(), STDOUT_FILENO);
  arguments.insert(arguments.begin(), program());
  std::vector<char*> passed;
  for (std::string& argument : arguments) passed.push_back(argument.data());
  passed.push_back(nullptr);
  EXPECT_EQ(posix_spawn(&id_, passed[0], &actions, nullptr, passed.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
}

PeerProcess::~PeerProcess() {
  if (id_ > 0) kill();
}

std::string PeerProcess::ask(const std::string& line) {
  tell(line);
  return answer();
}

void PeerProcess::tell(const std::string& line) {
  const std::string whole = line + "\n";
  if (write(input_.get(), whole.data(), whole.size()) < 0) read_.clear();
}

std::string PeerProcess::answer() {
  while (true) {
    if (const std::size_t end = read_.find('\n'); end != std::string::npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
    pollfd waited{output_.get(), POLLIN, 0};
    constexpr auto limit_ms = std::chrono::milliseconds(peer_limit).count();
    if (poll(&waited, 1, static_cast<int>(limit_ms)) <= 0) return "no answer";
    std::array<char, 1024> bytes;
    const ssize_t size = read(output_.get(), bytes.data(), bytes.size());
    if (size <= 0) return "ended";
    read_.append(bytes.data(), static_cast<std::size_t>(size));
  }
}

void PeerProcess::stop() {
  ::kill(id_, SIGSTOP);
  int status = 0;
  EXPECT_EQ(waitpid(id_, &status, WUNTRACED), id_);
  EXPECT_TRUE(WIFSTOPPED(status));
}

void PeerProcess::go_on() {
  ::kill(id_, SIGCONT);
  int status = 0;
  EXPECT_EQ(waitpid(id_, &status, WCONTINUED), id_);
}

void PeerProcess::kill() {
  ::kill(id_, SIGKILL);
  waitpid(id_, nullptr, 0);
  id_ = -1;
}

int PeerProcess::end() {
  input_ = Descriptor();
  const int status = wait_for_end();
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int PeerProcess::wait_for_end() {
  SteadyClock clock;
  int status = 0;
  const bool ended = poll_until(clock, clock.now() + peer_limit,
                                [&] { return waitpid(id_, &status, WNOHANG) == id_; });
  EXPECT_TRUE(ended) << "the process does not end";
  if (!ended) {
    kill();
    return SIGKILL;
  }
  id_ = -1;
  return status;
}

}  // namespace vma
