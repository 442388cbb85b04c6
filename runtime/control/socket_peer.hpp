#pragma once

#include "control/descriptor.hpp"

#include <sys/socket.h>

#include <optional>

namespace vma {

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
