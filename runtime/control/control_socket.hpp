#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <atomic>
#include <optional>
#include <string>

namespace vma {

/// Where the socket of this process is to be, by the value of VMART_CONTROL: none for null, "" and
/// words that mean no; for those that mean yes `vmart-PID.sock` in XDG_RUNTIME_DIR where that is a
/// private directory of ours, else `PID.sock` in `control_folder()`; everything else is a path,
/// with a slash in it. Throws: Error{invalid_argument} for what is neither.
std::optional<std::string> control_path(const char* setting);
/// /tmp/vmart-UID.
std::string control_folder();

/// Whether a peer may command this process: the same user, or root.
constexpr bool may_control(const ucred& peer, uid_t own) {
  return peer.uid == own || peer.uid == 0;
}
/// Who is at the other end. None where the kernel does not tell.
std::optional<ucred> peer_of(int descriptor);

/// A Unix stream socket that listens at a path, mode 0600 from its first moment. What stands at the
/// path always listens: it is made under another name and linked there. Owns the descriptor and the
/// path.
class ControlSocket {
 public:
  /// Replaces the socket of a dead process. Makes `control_folder()`, if the path lies there. Takes
  /// away what other dead processes of this user left in the folder under names of `control_path`.
  /// Throws: Error{invalid_argument} for a path that is too long, abstract, no socket, or in a
  /// directory that cannot be written or is not ours; {busy} if somebody listens there.
  explicit ControlSocket(std::string path);
  /// Removes the path if it still shows this socket. In a forked child it does nothing: path and
  /// socket are the parent's.
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  const std::string& path() const noexcept { return path_; }
  /// The descriptor, which is the caller's from now on.
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
