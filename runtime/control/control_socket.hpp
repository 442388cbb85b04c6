#pragma once

#include "control/descriptor.hpp"

#include <sys/socket.h>
#include <sys/types.h>

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

namespace vma {

/// Whether a value of VMART_CONTROL opens a socket: not "" and words that mean no. A value that is
/// not a word must contain a slash. Throws: Error{invalid_argument} for others.
bool opens_control(std::string_view setting);
/// Path of this process's socket, depending on the value of VMART_CONTROL; none if that opens none.
/// For words that mean yes, one in `own_folder()`. Throws: as these two.
std::optional<std::string> control_path(const char* setting);

/// Whether a peer may control this process: it must be the same user, or root.
constexpr bool may_control(const ucred& peer, uid_t own) {
  return peer.uid == own || peer.uid == 0;
}
/// Credentials of the peer; none if the kernel does not provide them.
std::optional<ucred> peer_of(int descriptor);

/// What a socket is like, and who may connect.
struct SocketTerms {
  int type = SOCK_STREAM;
  mode_t mode = 0600;        ///< With another one, the credentials of each peer have to be checked.
  bool sweeps_once = false;  ///< Not if a socket of this process has swept the folder.
};

/// A Unix socket that listens at a path, with its mode from the start. Whoever finds the
/// socket at the path can connect: it is created in a private folder beside, and linked to the path
/// once it listens. Owns the descriptor and the path.
class ControlSocket {
 public:
  /// Replaces the socket of a dead process. In a folder of `own_folder`, removes those that other
  /// dead processes of this user left. Throws: Error{invalid_argument} if the path is too long,
  /// abstract or not a socket, or if its folder is not writable, belongs to another user or lets
  /// all users replace the socket; {busy} if another process listens there.
  explicit ControlSocket(std::string path, const SocketTerms& terms = {});
  /// Removes the path if it still names this socket. Does nothing in a forked child, because path
  /// and socket belong to the parent.
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  /// Throws: Error{invalid_argument} if no socket can have that path: too long, abstract, or no
  /// file name.
  static void check_path(const std::string& path);

  const std::string& path() const noexcept { return path_; }
  /// Returns the descriptor; the caller owns it from now on.
  int release() noexcept;
  /// Removes the path, once. Any thread.
  void remove() noexcept;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::atomic<pid_t> owner_{0};  // The process that may remove the path; 0 once removed.
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

/// The process at the other end of a connected Unix socket: who connected or, of a listening
/// socket, who called `listen`; and whether that process still lives. The connection alone does not
/// tell: a forked child keeps it open, and may outlive its parent.
class SocketPeer {
 public:
  /// None if the kernel gives no credentials.
  static std::optional<SocketPeer> of(int socket) noexcept;

  const ucred& credentials() const noexcept { return credentials_; }
  /// Readable once the process has ended. -1 if there is none: before Linux 5.3; before 6.5, for a
  /// process in another pid namespace; before 6.16, for one that had ended before; without
  /// descriptors left.
  int watch() const noexcept { return watch_.get(); }
  bool ended() const noexcept;

 private:
  explicit SocketPeer(const ucred& credentials) noexcept : credentials_(credentials) {}

  ucred credentials_;
  Descriptor watch_;  // A pidfd.
  bool ended_before_ = false;
};

}  // namespace vma
