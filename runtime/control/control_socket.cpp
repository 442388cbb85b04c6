#include "control/control_socket.hpp"

#include "base/clock.hpp"
#include "base/environment.hpp"
#include "control/descriptor.hpp"
#include "control/own_folder.hpp"

#include <vma/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
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

/// A private folder beside a path, in which the socket gets its name and its mode before it is
/// linked to the path. A name beside the path could be replaced, before its mode is set, by a link
/// to any other file of this user. Whoever may write beside the path may also rename the folder and
/// give its name to another one, so on destruction it removes only what it has made.
class PrivateFolder {
 public:
  explicit PrivateFolder(const std::string& path);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  void bind(const Descriptor& socket, mode_t mode);
  struct stat status() const;
  /// Links the socket to the path unless the name exists; returns false if it does.
  bool link_to_path() const;

 private:
  bool has_name() const;
  /// Whether the path of the folder still leads to it.
  bool is_in_place() const;
  void bind_by_path(const Descriptor& socket);

  static constexpr const char* name_ = "s";
  const std::string& path_;
  std::string folder_;
  Descriptor opened_;  // From here on, others may rename the folder.
  bool bound_ = false;
};

PrivateFolder::PrivateFolder(const std::string& path) : path_(path), folder_(path + ".XXXXXX") {
  if (mkdtemp(folder_.data()) == nullptr) refuse_errno(path, "mkdtemp");
  opened_ = Descriptor(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened_) {
    const int code = errno;
    rmdir(folder_.c_str());
    errno = code;
    refuse_errno(path, "open of a private folder beside it");
  }
  struct stat made {};
  if (fstat(opened_.get(), &made) != 0 || !is_private(made, geteuid()) ||
      (made.st_mode & 0077) != 0 || has_name()) {
    refuse(
        ErrorKind::invalid_argument, path,
        "cannot keep a private folder beside it: another user replaced that, or this file system "
        "has no modes; use another folder, to which only this user may write");
  }
}

PrivateFolder::~PrivateFolder() {
  if (bound_) unlinkat(opened_.get(), name_, 0);
  if (is_in_place()) rmdir(folder_.c_str());
}

bool PrivateFolder::has_name() const {
  struct stat status {};
  return fstatat(opened_.get(), name_, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

bool PrivateFolder::is_in_place() const {
  struct stat named {
  }, opened{};
  return lstat(folder_.c_str(), &named) == 0 && fstat(opened_.get(), &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

void PrivateFolder::bind_by_path(const Descriptor& socket) {
  const std::string name = fmt::format("{}/{}", folder_, name_);
  const sockaddr_un address = address_at(name);
  if (name.size() >= sizeof address.sun_path) {
    refuse(ErrorKind::unsupported, path_,
           fmt::format("/proc is not mounted, so the path may have at most {} bytes; mount /proc "
                       "or use a shorter path",
                       sizeof address.sun_path - 1 - (name.size() - path_.size())));
  }
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    refuse_errno(path_, "bind");
  }
  // Somebody may have renamed the folder before the call, which then bound in another one.
  if (!has_name()) {
    refuse(ErrorKind::invalid_argument, path_, "another user replaced its private folder");
  }
}

void PrivateFolder::bind(const Descriptor& socket, mode_t mode) {
  // Linux gives the file the mode of the socket, less the umask, which is shared by the whole
  // process and remains unchanged.
  if (fchmod(socket.get(), mode) != 0) refuse_errno(path_, "fchmod");
  const sockaddr_un address = address_at(fmt::format("/proc/self/fd/{}/{}", opened_.get(), name_));
  // Programs in a chroot may have no /proc.
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno != ENOENT) refuse_errno(path_, "bind");
    bind_by_path(socket);
  }
  bound_ = true;
  if ((mode & 0077) != 0 && fchmodat(opened_.get(), name_, mode, 0) != 0) {
    refuse_errno(path_, "chmod");
  }
}

struct stat PrivateFolder::status() const {
  struct stat status {};
  if (fstatat(opened_.get(), name_, &status, AT_SYMLINK_NOFOLLOW) != 0) {
    refuse_errno(path_, "fstatat");
  }
  return status;
}

bool PrivateFolder::link_to_path() const {
  if (linkat(opened_.get(), name_, AT_FDCWD, path_.c_str(), 0) == 0) return true;
  if (errno != EEXIST) refuse_errno(path_, "link");
  return false;
}

/// Whoever may change the folder of the path could replace the socket by another.
void check_folder(const std::string& path) {
  const std::string folder = folder_of(path);
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) refuse_errno(folder, "stat");
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    refuse(ErrorKind::invalid_argument, path,
           fmt::format("its folder belongs to user {}, who could replace the socket; use a folder "
                       "of this user",
                       status.st_uid));
  }
  if ((status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) == 0) {
    refuse(ErrorKind::invalid_argument, path,
           fmt::format("its folder has mode {:04o}, so all users could replace the socket; use a "
                       "folder to which only this user may write",
                       status.st_mode & 07777));
  }
}

/// Replaces the socket of a dead process. Locks the directory, so that two processes that find the
/// same stale socket do not remove each other's new one.
void replace_stale(const PrivateFolder& made, const std::string& path) {
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
  if (!made.link_to_path()) refuse(ErrorKind::busy, path, "another process took it first");
}

/// Whether it is of an export of a process that lives, so that there is no need to connect, of
/// which that process would learn. False for control sockets, which are few, and for processes of
/// another namespace, whose numbers mean nothing here.
bool is_export_of_live(const SocketName& name) {
  if (name.key.empty() || name.pid_namespace != SocketName::own().pid_namespace) return false;
  return kill(name.process, 0) == 0 || errno != ESRCH;
}

/// Whether this process has called it with the folder.
bool note_swept(const std::string& folder) {
  static std::mutex mutex;
  static std::set<std::string> swept;
  const std::lock_guard lock(mutex);
  return !swept.insert(folder).second;
}

/// Removes stale sockets of this user's dead processes from a folder of `own_folder`. Leaves
/// entries that cannot be examined.
void sweep(const std::string& folder) noexcept try {
  constexpr int looks_max = 1000;
  if (std::ranges::count(folders_of(geteuid()), folder) == 0) return;
  const Descriptor held(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (held.get() < 0 || flock(held.get(), LOCK_EX | LOCK_NB) != 0) return;
  int looks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path();
    const auto name = SocketName::parse(entry.path().filename().native());
    if (!name || is_export_of_live(*name)) continue;
    if (++looks > looks_max) return;
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) continue;
    if (status.st_uid == geteuid() && !is_live(path)) unlink(path.c_str());
  }
} catch (const std::exception&) {  // The folder was removed, or changed by another process.
}

// Of Linux 6.5 and 5.3; the C library's headers may be older.
constexpr int so_peerpidfd = 77;
constexpr long sys_pidfd_open = 434;

}  // namespace

bool opens_control(std::string_view setting) {
  if (setting.empty()) return false;
  if (const std::optional<bool> word = yes_or_no(setting)) return *word;
  // Most likely a mistake: nobody would look for a socket in the current folder.
  if (setting.find('/') == std::string_view::npos) {
    refuse_setting("VMART_CONTROL", setting, environment_takes("VMART_CONTROL"));
  }
  return true;
}

std::optional<std::string> control_path(const char* setting) {
  const std::string_view text = setting == nullptr ? "" : setting;
  if (!opens_control(text)) return std::nullopt;
  if (!yes_or_no(text)) return std::string(text);
  return fmt::format("{}/{}", own_folder(), SocketName::own().text());
}

std::optional<ucred> peer_of(int descriptor) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

void ControlSocket::check_path(const std::string& path) {
  constexpr std::size_t longest = sizeof(sockaddr_un::sun_path) - 1;
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
  check_folder(path_);
  if (!note_swept(folder_of(path_)) || !terms.sweeps_once) sweep(folder_of(path_));
  Descriptor listening(socket(AF_UNIX, terms.type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listening) refuse_errno(path_, "socket");
  PrivateFolder made(path_);
  made.bind(listening, terms.mode);
  const struct stat status = made.status();
  if ((status.st_mode & 0777 & ~terms.mode) != 0) {
    refuse(ErrorKind::unsupported, path_,
           "this file system does not restrict access by other users");
  }
  if (listen(listening.get(), backlog) != 0) refuse_errno(path_, "listen");
  if (!made.link_to_path()) replace_stale(made, path_);
  descriptor_ = listening.release();
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

std::optional<SocketPeer> SocketPeer::of(int socket) noexcept {
  const std::optional<ucred> credentials = peer_of(socket);
  if (!credentials) return std::nullopt;
  SocketPeer peer(*credentials);
  int watch = -1;
  socklen_t size = sizeof watch;
  if (getsockopt(socket, SOL_SOCKET, so_peerpidfd, &watch, &size) == 0) {
    peer.watch_ = Descriptor(watch);
    return peer;
  }
  const int failure = errno;
  // So say kernels before 6.16 of a process that is reaped; later ones still give a descriptor.
  peer.ended_before_ = failure == EINVAL || failure == ESRCH;
  // Without the option, the id may belong to a later process by now; such a kernel gives no better
  // one. Without descriptors left, this way still tells whether the process has ended.
  const bool other_way = failure == ENOPROTOOPT || failure == EMFILE || failure == ENFILE;
  if (!other_way || credentials->pid <= 0) return peer;
  watch = static_cast<int>(syscall(sys_pidfd_open, credentials->pid, 0));
  peer.ended_before_ = watch < 0 && errno == ESRCH;
  peer.watch_ = Descriptor(watch);
  return peer;
}

bool SocketPeer::ended() const noexcept {
  if (ended_before_) return true;
  if (watch_) {
    pollfd waited{watch_.get(), POLLIN, 0};
    return poll(&waited, 1, 0) > 0;
  }
  return credentials_.pid > 0 && kill(credentials_.pid, 0) != 0 && errno == ESRCH;
}

}  // namespace vma
