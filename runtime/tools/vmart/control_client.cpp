#include "tools/vmart/control_client.hpp"

#include "base/printable.hpp"
#include "control/control_socket.hpp"
#include "control/descriptor.hpp"
#include "control/own_folder.hpp"
#include "tools/vmart/control_text.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>

namespace vma {
namespace {

namespace json = boost::json;

constexpr std::size_t answer_bytes_max = std::size_t{16} << 20;
constexpr auto connect_limit = std::chrono::milliseconds(500);

using SteadyTime = std::chrono::steady_clock::time_point;

[[noreturn]] void refuse(const std::string& detail) {
  throw std::runtime_error(detail);
}

/// Returns -1 and sets errno if no process listens at `path`; to EAGAIN if its queue stays full up
/// to the deadline: a listener of another user could otherwise block root.
int connect_to(const std::string& path, SteadyTime deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  path.copy(address.sun_path, path.size());
  const auto left =
      std::chrono::ceil<std::chrono::microseconds>(deadline - std::chrono::steady_clock::now());
  const int waits = left.count() > 0 ? 0 : SOCK_NONBLOCK;
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | waits, 0);
  if (descriptor < 0) return -1;
  const timeval limit{0, left.count()};  // Linux waits in `connect` as long as in `send`.
  if (waits == 0) setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return descriptor;
  }
  const int code = errno;
  close(descriptor);
  errno = code;
  return -1;
}

/// Owned by `user`, this user or root, which has all rights anyway, and not writable by others.
bool is_trusted(const struct stat& status, uid_t user) {
  const bool own = status.st_uid == user || status.st_uid == geteuid() || status.st_uid == 0;
  const bool sticky = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
  return own && (sticky || (status.st_mode & (S_IWGRP | S_IWOTH)) == 0);
}

/// Why a third user may have put a socket in the place of `user`'s: he could read the requests and
/// forge the answers. Empty if the socket belongs to `user` and lies in a folder where no third
/// user can replace it.
std::string why_distrusted(const std::string& path, uid_t user) {
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
    if (!is_trusted(status, user)) return fmt::format("its folder {} {}", folder.string(), owner());
  }
  if (lstat(real.c_str(), &status) != 0) return std::strerror(errno);
  if (!S_ISSOCK(status.st_mode)) return "it is not a socket";
  if (!is_trusted(status, user)) return "it " + owner();
  return "";
}

/// A connection to a listener that this user may control. Empty `descriptor` and `why` if nobody
/// listens at the path.
struct Connected {
  Descriptor descriptor;
  ListeningProgram program;
  std::string why;  // Why it is not trusted.
};

/// The kernel's word about the process that listens decides, not the path or the name of a folder.
/// Nothing is sent.
Connected connect_trusted(const std::string& path, SteadyTime deadline) {
  Connected connected{Descriptor(connect_to(path, deadline)), {path, 0, 0}, ""};
  if (!connected.descriptor) return connected;
  const std::optional<ucred> peer = peer_of(connected.descriptor.get());
  const uid_t user = geteuid();
  if (!peer || (user != 0 && !may_control(*peer, user))) {
    connected.why =
        fmt::format("the listener runs as user {}", peer ? std::to_string(peer->uid) : "unknown");
    return connected;
  }
  connected.program = {path, peer->pid, peer->uid};
  connected.why = why_distrusted(path, peer->uid);
  return connected;
}

/// This user; for root all users of processes that run.
std::set<uid_t> controlled_users() {
  std::set<uid_t> users{geteuid()};
  if (geteuid() != 0) return users;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", none)) {
    const std::string name = entry.path().filename();
    struct stat status {};
    const bool process = name.find_first_not_of("0123456789") == std::string::npos;
    if (process && stat(entry.path().c_str(), &status) == 0) users.insert(status.st_uid);
  }
  return users;
}

/// "; these listen: 12 (train.py), 34 (serve.py)"
std::string those_that_listen() {
  std::vector<std::string> names;
  for (const ListeningProgram& each : listeners()) names.push_back(name_of(each));
  if (names.empty()) return "no program listens";
  return fmt::format("these listen: {}", fmt::join(names, ", "));
}

[[noreturn]] void refuse_process(int pid) {
  struct stat status {};
  const std::string folder = fmt::format("/proc/{}", pid);
  if (stat(folder.c_str(), &status) != 0) {
    refuse(fmt::format("there is no process {}; {}", pid, those_that_listen()));
  }
  const auto id = static_cast<std::uint64_t>(pid);
  if (geteuid() != 0 && status.st_uid != geteuid()) {
    refuse(fmt::format("process {} ({}) belongs to user {}; only that user and root may control it",
                       pid, program_of(id), status.st_uid));
  }
  refuse(
      fmt::format("process {} ({}) does not listen; start it by `vmart run` or with "
                  "VMART_CONTROL=1 in its environment; {}",
                  pid, program_of(id), those_that_listen()));
}

std::string path_of(const ControlChoice& choice) {
  if (!choice.socket.empty()) return choice.socket;
  std::vector<ListeningProgram> found = listeners();
  if (choice.pid != 0) {
    std::erase_if(found, [&](const ListeningProgram& each) { return each.pid != choice.pid; });
    if (found.empty()) refuse_process(choice.pid);
    return found.front().path;
  }
  if (found.size() == 1) return found.front().path;
  if (found.empty()) {
    refuse(
        "no program listens; `vmart run -- PROGRAM` starts one that does, and so does "
        "VMART_CONTROL=1 in the environment (`vmart demo` needs no other program)");
  }
  refuse("several programs listen, so choose one with --pid; " + those_that_listen());
}

[[noreturn]] void refuse_connection(const std::string& path, int code) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 && errno == ENOENT) {
    refuse(fmt::format("{} does not exist; {}", path, those_that_listen()));
  }
  if (code == ECONNREFUSED && !S_ISSOCK(status.st_mode)) {
    refuse(fmt::format("{} is not a socket; {}", path, those_that_listen()));
  }
  if (code == ECONNREFUSED) {
    refuse(fmt::format("no process listens at {} any more; {}", path, those_that_listen()));
  }
  if (code == EAGAIN) {
    refuse(
        fmt::format("the program at {} accepts no connection: too many clients wait for it; "
                    "end some, or try again",
                    path));
  }
  refuse(fmt::format("cannot connect to {}: {}", path, std::strerror(code)));
}

}  // namespace

std::vector<ListeningProgram> listeners() {
  std::set<std::string> paths;
  for (const uid_t user : controlled_users()) {
    for (const std::string& folder : folders_of(user)) {
      std::error_code none;  // A missing folder counts as empty.
      for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
        const auto name = SocketName::parse(entry.path().filename().native());
        if (name && name->key.empty()) paths.insert(entry.path());
      }
    }
  }
  std::vector<ListeningProgram> found;
  const SteadyTime deadline = std::chrono::steady_clock::now() + connect_limit;  // Of all together.
  for (const std::string& path : paths) {
    const Connected connected = connect_trusted(path, deadline);
    if (connected.descriptor && connected.why.empty()) found.push_back(connected.program);
  }
  std::ranges::sort(found, {},
                    [](const ListeningProgram& each) { return std::tie(each.pid, each.path); });
  // One process may be found by several names.
  const auto again =
      std::ranges::unique(found, [](const ListeningProgram& one, const ListeningProgram& other) {
        return one.pid != 0 && one.pid == other.pid;
      });
  found.erase(again.begin(), again.end());
  return found;
}

std::string name_of(const ListeningProgram& listener) {
  const std::string user =
      listener.user == geteuid() ? "" : fmt::format(", user {}", listener.user);
  return fmt::format("{} ({}{})", listener.pid,
                     program_of(static_cast<std::uint64_t>(listener.pid)), user);
}

std::string program_of(std::uint64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
  const auto name_in = [](const std::string& path) {
    return printable(std::filesystem::path(path).filename().string());
  };
  std::string program, argument;
  if (!std::getline(file, program, '\0')) return "?";
  if (name_in(program).starts_with("python") && std::getline(file, argument, '\0') &&
      !argument.starts_with("-")) {
    return name_in(argument);
  }
  return name_in(program);
}

ControlClient::ControlClient(const ControlChoice& choice)
    : limit_ms_(choice.limit_ms), path_(path_of(choice)) {
  Connected connected = connect_trusted(path_, std::chrono::steady_clock::now() + connect_limit);
  if (!connected.descriptor) refuse_connection(path_, errno);
  if (!connected.why.empty()) {
    refuse(fmt::format("{} is not trusted: {}", path_, connected.why));
  }
  program_ = connected.program;
  descriptor_ = connected.descriptor.release();
}

ControlClient::~ControlClient() {
  close(descriptor_);
}

json::object ControlClient::answer_to(const json::object& request) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms_);
  const std::string line = json::serialize(request) + "\n";
  // If sending fails, the runtime has closed the connection; the read below returns its reason, if
  // any.
  static_cast<void>(send(descriptor_, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  boost::system::error_code failed;
  json::value answer = json::parse(read_line(deadline), failed);
  if (failed || !answer.is_object()) return {};
  return std::move(answer.get_object());
}

json::object ControlClient::ask(const json::object& request) {
  json::object answer = answer_to(request);
  if (json::value* const ok = answer.if_contains("ok"); ok != nullptr && ok->is_object()) {
    return std::move(ok->get_object());
  }
  const json::object& told = object_of(answer, "error");
  if (told.empty()) refuse(fmt::format("{} does not answer as a runtime of vmart does", path_));
  const std::string kind = text_of(told, "kind");
  // What another version does not know is an argument that is not valid.
  const std::string why = kind == "invalid_argument" ? why_versions() : "";
  throw ControlRefusal(text_of(told, "message") + why, kind);
}

std::string ControlClient::why_versions() try {
  const json::object answer = answer_to({{"command", "status"}});
  const json::object& status = object_of(answer, "ok");
  const std::string advice = status.empty() ? "" : version_advice(status);
  return advice.empty() ? "" : " (" + advice + ")";
} catch (const std::runtime_error&) {
  return "";  // It has said enough.
}

std::string version_advice(const json::object& status) {
  const std::string version = text_of(status, "version");
  if (version == VMART_VERSION) return "";
  return fmt::format(
      "the program has vmart {}, this command is of {}; use the command of the program's version, "
      "or start the program with this one",
      version.empty() ? "0.1" : printable(version), VMART_VERSION);
}

std::string ControlClient::read_line(SteadyTime deadline) {
  using std::chrono::milliseconds;
  std::size_t searched = 0;
  for (;;) {
    const std::size_t end = input_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = input_.substr(0, end);
      input_.erase(0, end + 1);
      return line;
    }
    searched = input_.size();
    if (searched > answer_bytes_max) refuse("the answer exceeds 16 MiB");
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd wait{descriptor_, POLLIN, 0};
    const int ready = left.count() > 0 ? poll(&wait, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      refuse(fmt::format("the program at {} has not answered within {} s", path_,
                         static_cast<double>(limit_ms_) / 1000));
    }
    char bytes[16'384];
    const ssize_t count = recv(descriptor_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) refuse(fmt::format("the program at {} has ended or closed its socket", path_));
    input_.append(bytes, static_cast<std::size_t>(count));
  }
}

}  // namespace vma
