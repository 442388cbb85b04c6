#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <atomic>
#include <optional>
#include <string>

namespace vma {

/// Path of this process's socket, by the value of VMART_CONTROL: none for null, "" and words that
/// mean no; for words that mean yes, `vmart-PID.sock` in XDG_RUNTIME_DIR if that is a private
/// directory of this user, otherwise `PID.sock` in `control_folder()`; anything else must be a path
/// with a slash in it. Throws: Error{invalid_argument} for other words.
std::optional<std::string> control_path(const char* setting);
/// /tmp/vmart-UID.
std::string control_folder();

/// Whether a peer may command this process: the same user, or root.
constexpr bool may_control(const ucred& peer, uid_t own) {
  return peer.uid == own || peer.uid == 0;
}
/// Credentials of the peer. None if the kernel does not provide them.
std::optional<ucred> peer_of(int descriptor);

/// A Unix stream socket that listens at a path, mode 0600 from the start. The socket at the path
/// always listens: it is created under another name and linked there. Owns the descriptor and the
/// path.
class ControlSocket {
 public:
  /// Replaces the socket of a dead process. Creates `control_folder()` if the path is in it.
  /// Removes what other dead processes of this user left in the folder under names of
  /// `control_path`. Throws: Error{invalid_argument} for a path that is too long, abstract, no
  /// socket, or in a directory that is not writable or not ours; {busy} if another process listens
  /// there.
  explicit ControlSocket(std::string path);
  /// Removes the path if it still names this socket. Does nothing in a forked child: path and
  /// socket belong to the parent.
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  const std::string& path() const noexcept { return path_; }
  /// Returns the descriptor, which the caller owns from now on.
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
