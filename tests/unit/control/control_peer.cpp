#include "unit/control/control_peer.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace vma {

TestFolder::TestFolder() : path_("/tmp/vmart-test-XXXXXX") {
  EXPECT_NE(mkdtemp(path_.data()), nullptr);
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

ControlPeer::ControlPeer(const std::string& path)
    : descriptor_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const timeval limit{20, 0};
  setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  connected_ =
      connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

ControlPeer::~ControlPeer() {
  close(descriptor_);
}

bool ControlPeer::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool ControlPeer::send_some(std::string_view bytes, std::size_t& sent) {
  const ssize_t count =
      ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count > 0) sent += static_cast<std::size_t>(count);
  return count > 0 || errno == EAGAIN;
}

void ControlPeer::end_of_requests() {
  shutdown(descriptor_, SHUT_WR);
}

std::string ControlPeer::read_line() {
  for (;;) {
    const std::size_t end = input_.find('\n');
    if (end != std::string::npos) {
      std::string line = input_.substr(0, end);
      input_.erase(0, end + 1);
      return line;
    }
    char bytes[65'536];
    const ssize_t count = recv(descriptor_, bytes, sizeof bytes, 0);
    if (count <= 0) return {};
    input_.append(bytes, static_cast<std::size_t>(count));
  }
}

bool ControlPeer::hangs_up() {
  char bytes[65'536];
  for (;;) {
    const ssize_t count = recv(descriptor_, bytes, sizeof bytes, 0);
    if (count == 0) return true;
    if (count < 0) return errno == ECONNRESET;
  }
}

boost::json::object ControlPeer::ask(std::string_view request) {
  EXPECT_TRUE(send(std::string(request) + "\n"));
  const std::string line = read_line();
  EXPECT_NE(line, "") << "hung up after: " << request;
  return line.empty() ? boost::json::object() : boost::json::parse(line).as_object();
}

}  // namespace vma
