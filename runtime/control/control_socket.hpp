#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <atomic>
#include <optional>
#include <string>

namespace vma {

/// Path of this process's socket, depending on the value of VMART_CONTROL. None for null, "" and
/// words that mean no. For words that mean yes, `vmart-PID.sock` in XDG_RUNTIME_DIR if that is a
/// private directory of this user, otherwise `PID.sock` in `control_folder()`. Anything else must
/// be a path that contains a slash. Throws: Error{invalid_argument} for other words.
std::optional<std::string> control_path(const char* setting);
/// /tmp/vmart-UID.
std::string control_folder();
/// Creates it, with mode 0700. Throws: Error{invalid_argument} if another user has taken the name,
/// and others if the system refuses.
void make_own_folder(const std::string& folder);
/// That of another user.
std::string control_folder(uid_t user);

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
/// socket at the path can connect: it is created under a temporary name, and linked to the path
/// once it listens. Owns the descriptor and the path.
class ControlSocket {
 public:
  /// Replaces the socket of a dead process. Creates `control_folder()` if the path is in it.
  /// Removes sockets that other dead processes of this user left in the folder under names of
  /// `control_path`. Throws: Error{invalid_argument} if the path is too long, abstract or not a
  /// socket, or if its directory is not writable or belongs to another user; {busy} if another
  /// process listens there.
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

}  // namespace vma
