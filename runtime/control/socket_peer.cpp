#include "control/socket_peer.hpp"

#include "control/control_socket.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace vma {
namespace {

// Of Linux 6.5 and 5.3; the C library's headers may be older.
constexpr int so_peerpidfd = 77;
constexpr long sys_pidfd_open = 434;

}  // namespace

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
