#include "control/control_socket.hpp"

#include "base/clock.hpp"
#include "control/descriptor.hpp"
#include "base/environment.hpp"
#include "control/socket_peer.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

namespace vma {
namespace {

constexpr int backlog = 16;
// Of the temporary name under which the socket is created.
constexpr std::size_t suffix_length = 9;
constexpr auto replacement_limit = std::chrono::seconds(1);

[[noreturn]] void refuse(ErrorKind kind, const std::string& path, const std::string& reason) {
  throw Error(kind, "vma::control", fmt::format("{}: {}", path, reason));
}

[[noreturn]] void refuse_errno(const std::string& path, const char* call) {
  const int code = errno;
  refuse(ErrorKind::invalid_argument, path, fmt::format("{}: {}", call, std::strerror(code)));
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Whether it is a directory of this user that no other user may write to.
bool is_private(const struct stat& status) {
  return S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

sockaddr_un address_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

/// Whether a live process listens at `path`. Also checks the process that created the socket,
/// because a forked child may keep the socket of a dead parent open.
bool is_live(const std::string& path) {
  const sockaddr_un address = address_at(path);
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {  // Of the control socket; of an export.
    const Descriptor probe(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!probe) return true;  // Unknown, so assume that it is live.
    if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      const std::optional<SocketPeer> peer = SocketPeer::of(probe.get());
      return !peer || !peer->ended();
    }
    if (errno != EPROTOTYPE) return errno != ECONNREFUSED && errno != ENOENT;
  }
  return true;
}

/// Links `made` to `path` unless the name exists; returns false if it does.
bool link_to(const std::string& made, const std::string& path) {
  if (link(made.c_str(), path.c_str()) == 0) return true;
  if (errno != EEXIST) refuse_errno(path, "link");
  return false;
}

/// Replaces the socket of a dead process. Locks the directory, so that two processes that find the
/// same stale socket do not remove each other's new one.
void replace_stale(const std::string& made, const std::string& path) {
  const Descriptor folder(open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) refuse_errno(folder_of(path), "open");
  SteadyClock clock;
  if (!poll_until(clock, clock.now() + replacement_limit,
                  [&] { return flock(folder.get(), LOCK_EX | LOCK_NB) == 0; })) {
    refuse(ErrorKind::busy, path, "another process keeps its directory locked");
  }
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) {
      refuse(ErrorKind::invalid_argument, path, "exists and is not a socket");
    }
    if (is_live(path)) refuse(ErrorKind::busy, path, "another process already listens there");
    if (unlink(path.c_str()) != 0 && errno != ENOENT) refuse_errno(path, "unlink");
  }
  if (!link_to(made, path)) refuse(ErrorKind::busy, path, "another process took it first");
}

/// Whether this library makes such names: "123.sock" and, of exports, "123-1.sock" in our own
/// folder, "vmart-123.sock" elsewhere.
bool is_made_up(std::string_view name, bool own_folder) {
  constexpr std::string_view prefix = "vmart-";
  constexpr std::string_view suffix = ".sock";
  if (!own_folder) {
    if (!name.starts_with(prefix)) return false;
    name.remove_prefix(prefix.size());
  }
  if (!name.ends_with(suffix) || name.size() == suffix.size()) return false;
  name.remove_suffix(suffix.size());
  return name.find_first_not_of("0123456789-") == std::string_view::npos;
}

/// Whether "123-1.sock" is an export of a process that lives, so that there is no need to connect,
/// of which that process would learn. False for other names: those of control sockets are few.
bool is_export_of_live(std::string_view name) {
  pid_t process = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process);
  if (error != std::errc() || process <= 0 || end == name.data() + name.size() || *end != '-') {
    return false;
  }
  return kill(process, 0) == 0 || errno != ESRCH;
}

/// Whether this process has called it with the folder.
bool note_swept(const std::string& folder) {
  static std::mutex mutex;
  static std::set<std::string> swept;
  const std::lock_guard lock(mutex);
  return !swept.insert(folder).second;
}

/// Removes stale sockets of this user's dead processes from a folder that only this user may write
/// to. Leaves entries that cannot be examined.
void sweep(const std::string& folder) noexcept try {
  constexpr int looks_max = 1000;
  struct stat status {};
  if (lstat(folder.c_str(), &status) != 0 || !is_private(status)) return;
  const Descriptor held(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (held.get() < 0 || flock(held.get(), LOCK_EX | LOCK_NB) != 0) return;
  int looks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path();
    const std::string name = entry.path().filename();
    if (!is_made_up(name, folder == control_folder()) || is_export_of_live(name)) continue;
    if (++looks > looks_max) return;
    if (lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) continue;
    if (status.st_uid == geteuid() && !is_live(path)) unlink(path.c_str());
  }
} catch (const std::exception&) {  // The folder was removed, or changed by another process.
}

std::string made_name(const std::string& path) {
  std::uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) refuse_errno(path, "getrandom");
  return fmt::format("{}.{:08x}", path, number);
}

/// Removes a name from the file system on destruction.
struct MadeName {
  std::string name;
  ~MadeName() { unlink(name.c_str()); }
};

}  // namespace

void make_own_folder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) refuse_errno(folder, "mkdir");
  struct stat status {};
  if (lstat(folder.c_str(), &status) != 0) refuse_errno(folder, "lstat");
  if (!is_private(status) || (status.st_mode & 0077) != 0) {
    // Another user may have created it first, or placed a link there.
    refuse(ErrorKind::invalid_argument, folder, "is not a directory of this user with mode 0700");
  }
}

std::string control_folder() {
  return control_folder(geteuid());
}

std::string control_folder(uid_t user) {
  return fmt::format("/tmp/vmart-{}", user);
}

std::optional<std::string> control_path(const char* setting) {
  const std::string_view text = setting == nullptr ? "" : setting;
  if (text.empty()) return std::nullopt;
  const std::optional<bool> word = yes_or_no(text);
  if (word && !*word) return std::nullopt;
  if (!word) {
    // Most likely a mistake: nobody would look for a socket in the current folder.
    if (text.find('/') == std::string_view::npos) {
      refuse_setting("VMART_CONTROL", text, environment_takes("VMART_CONTROL"));
    }
    return std::string(text);
  }
  const char* folder = std::getenv("XDG_RUNTIME_DIR");
  struct stat status {};
  // Under sudo, the variable may name a directory of the user who called it.
  if (folder != nullptr && folder[0] == '/' && lstat(folder, &status) == 0 && is_private(status)) {
    return fmt::format("{}/vmart-{}.sock", folder, getpid());
  }
  return fmt::format("{}/{}.sock", control_folder(), getpid());
}

std::optional<ucred> peer_of(int descriptor) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

void ControlSocket::check_path(const std::string& path) {
  constexpr std::size_t longest = sizeof(sockaddr_un::sun_path) - 1 - suffix_length;
  if (path.empty() || path.back() == '/') {
    refuse(ErrorKind::invalid_argument, path, "is not a file name");
  }
  if (path[0] == '@' || path.find('\0') != std::string::npos) {
    refuse(ErrorKind::invalid_argument, path.c_str(),
           "is an abstract name, which has no owner and no mode; use a path");
  }
  if (path.size() > longest) {
    refuse(ErrorKind::invalid_argument, path,
           fmt::format("a socket path may have at most {} bytes; this one has {}", longest,
                       path.size()));
  }
}

ControlSocket::ControlSocket(std::string path, const SocketTerms& terms) : path_(std::move(path)) {
  check_path(path_);
  if (folder_of(path_) == control_folder()) make_own_folder(control_folder());
  if (!note_swept(folder_of(path_)) || !terms.sweeps_once) sweep(folder_of(path_));
  Descriptor made(socket(AF_UNIX, terms.type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (made.get() < 0) refuse_errno(path_, "socket");
  // Linux gives the file the mode of the socket. So it never has another mode, and the umask, which
  // is shared by the whole process, remains unchanged.
  if (fchmod(made.get(), terms.mode) != 0) refuse_errno(path_, "fchmod");
  const MadeName name{made_name(path_)};
  const sockaddr_un address = address_at(name.name);
  if (bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    refuse_errno(path_, "bind");
  }
  // The umask applies to what others may do.
  if ((terms.mode & 0077) != 0 && chmod(name.name.c_str(), terms.mode) != 0) {
    refuse_errno(path_, "chmod");
  }
  struct stat status {};
  if (lstat(name.name.c_str(), &status) != 0) refuse_errno(path_, "lstat");
  if ((status.st_mode & 0777 & ~terms.mode) != 0) {
    refuse(ErrorKind::unsupported, path_,
           "this file system does not restrict access by other users");
  }
  if (listen(made.get(), backlog) != 0) refuse_errno(path_, "listen");
  if (!link_to(name.name, path_)) replace_stale(name.name, path_);
  descriptor_ = made.release();
  owner_ = getpid();
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

ControlSocket::~ControlSocket() {
  if (owner_ != 0 && getpid() != owner_) return;
  remove();
  if (descriptor_ >= 0) ::close(descriptor_);
}

int ControlSocket::release() noexcept {
  return std::exchange(descriptor_, -1);
}

void ControlSocket::remove() noexcept {
  pid_t here = getpid();
  if (!owner_.compare_exchange_strong(here, 0)) return;
  struct stat status {};
  if (lstat(path_.c_str(), &status) != 0) return;
  if (status.st_dev == device_ && status.st_ino == inode_) unlink(path_.c_str());
}

}  // namespace vma
