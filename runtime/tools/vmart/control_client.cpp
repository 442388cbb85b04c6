#include "tools/vmart/control_client.hpp"

#include "control/control_socket.hpp"
#include "control/own_folder.hpp"

#include <vma/error.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace vma {
namespace {

namespace json = boost::json;

constexpr int answer_limit_ms = 10'000;
constexpr std::size_t answer_bytes_max = std::size_t{16} << 20;

[[noreturn]] void refuse(ErrorKind kind, const std::string& detail) {
  throw Error(kind, "control", detail);
}

/// Returns -1 and sets errno if no process listens at `path`.
int connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  path.copy(address.sun_path, path.size());
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -1;
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return descriptor;
  }
  const int code = errno;
  close(descriptor);
  errno = code;
  return -1;
}

/// Owned by this user or by root, which has all rights anyway, and not writable by others.
bool is_trusted(const struct stat& status) {
  const bool own = status.st_uid == geteuid() || status.st_uid == 0;
  const bool sticky = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
  return own && (sticky || (status.st_mode & (S_IWGRP | S_IWOTH)) == 0);
}

/// Why a socket may belong to another user, who could read the requests and forge the answers.
/// Empty if it belongs to this user and lies in a folder where no other user can replace it.
std::string why_distrusted(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path named = std::filesystem::absolute(path);
  const std::filesystem::path real = std::filesystem::canonical(named, failed);
  if (failed) return failed.message();
  struct stat status {};
  const auto owner = [&] {
    return fmt::format("belongs to user {}, with mode {:04o}", status.st_uid,
                       status.st_mode & 07777);
  };
  // For a symbolic link, checks both folders: whoever can write to the link's folder can redirect
  // it.
  for (const std::filesystem::path& folder : {named.parent_path(), real.parent_path()}) {
    if (stat(folder.c_str(), &status) != 0)
      return fmt::format("{}: {}", folder.string(), std::strerror(errno));
    if (!is_trusted(status)) return fmt::format("its folder {} {}", folder.string(), owner());
  }
  if (lstat(real.c_str(), &status) != 0) return std::strerror(errno);
  if (!S_ISSOCK(status.st_mode)) return "it is not a socket";
  if (!is_trusted(status)) return "it " + owner();
  return "";
}

/// Those that listen; all for 0.
std::vector<std::string> paths_of(pid_t process) {
  std::vector<std::string> paths;
  for (const std::string& folder : folders_of(geteuid())) {
    std::error_code none;  // A missing folder counts as empty.
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      const auto name = SocketName::parse(entry.path().filename().native());
      if (!name || !name->key.empty()) continue;
      if (process == 0 || process == name->process) paths.push_back(entry.path());
    }
  }
  std::erase_if(paths, [](const std::string& path) {
    if (!why_distrusted(path).empty()) return true;
    const int descriptor = connect_to(path);
    if (descriptor >= 0) close(descriptor);
    return descriptor < 0;
  });
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string path_of(const ControlChoice& choice) {
  if (!choice.socket.empty()) return choice.socket;
  const auto paths = paths_of(choice.pid);
  if (paths.size() == 1) return paths.front();
  if (paths.empty()) {
    refuse(ErrorKind::invalid_argument,
           "no runtime is listening; start the program with VMART_CONTROL=1 in its environment "
           "(`vmart demo` needs no other program)");
  }
  refuse(ErrorKind::invalid_argument,
         fmt::format("several runtimes are listening; choose one with --pid or --socket: {}",
                     fmt::join(paths, " ")));
}

}  // namespace

std::vector<std::string> listening_sockets() {
  return paths_of(0);
}

ControlClient::ControlClient(const ControlChoice& choice) : path_(path_of(choice)) {
  if (const std::string why = why_distrusted(path_); !why.empty()) {
    refuse(ErrorKind::invalid_argument, fmt::format("{} is not trusted: {}", path_, why));
  }
  descriptor_ = connect_to(path_);
  if (descriptor_ < 0) {
    refuse(ErrorKind::invalid_argument, fmt::format("{}: {}", path_, std::strerror(errno)));
  }
  // The path may have changed since the check; this is the process that actually answers.
  const std::optional<ucred> peer = peer_of(descriptor_);
  if (peer && may_control(*peer, geteuid())) return;
  close(std::exchange(descriptor_, -1));
  refuse(ErrorKind::invalid_argument,
         fmt::format("{} is not trusted: the listener runs as user {}", path_,
                     peer ? std::to_string(peer->uid) : "unknown"));
}

ControlClient::~ControlClient() {
  close(descriptor_);
}

json::object ControlClient::ask(const json::object& request) {
  const std::string line = json::serialize(request) + "\n";
  // If sending fails, the runtime has closed the connection; the read below returns its reason, if
  // any.
  static_cast<void>(send(descriptor_, line.data(), line.size(), MSG_NOSIGNAL));
  json::value answer = json::parse(read_line());
  json::object& members = answer.as_object();
  if (const json::value* error = members.if_contains("error")) {
    const json::object& told = error->as_object();
    throw ControlRefusal(std::string(told.at("message").as_string()),
                         std::string(told.at("kind").as_string()));
  }
  return std::move(members.at("ok").as_object());
}

std::string ControlClient::read_line() {
  for (;;) {
    const std::size_t end = input_.find('\n');
    if (end != std::string::npos) {
      std::string line = input_.substr(0, end);
      input_.erase(0, end + 1);
      return line;
    }
    if (input_.size() > answer_bytes_max)
      refuse(ErrorKind::unsupported, "the answer exceeds 16 MiB");
    pollfd wait{descriptor_, POLLIN, 0};
    const int ready = poll(&wait, 1, answer_limit_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) refuse(ErrorKind::busy, fmt::format("{}: the answer timed out", path_));
    char bytes[16'384];
    const ssize_t count = recv(descriptor_, bytes, sizeof bytes, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) refuse(ErrorKind::driver_gone, fmt::format("{}: hung up", path_));
    input_.append(bytes, static_cast<std::size_t>(count));
  }
}

}  // namespace vma
