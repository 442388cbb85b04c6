#include "support/one_processor.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>

namespace vma {
namespace {

/// Binds a socket name that no other process can have at the same time; negative if it is taken.
int claim(int processor) noexcept {
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;  // A name that begins with 0 is not in the file system.
  const auto end = fmt::format_to_n(name.sun_path + 1, sizeof name.sun_path - 1,
                                    "vmart test on processor {}", processor);
  const auto size = offsetof(sockaddr_un, sun_path) + 1 + end.size;
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&name), static_cast<socklen_t>(size)) == 0) {
    return fd;
  }
  ::close(fd);
  return -1;
}

}  // namespace

OneProcessor::OneProcessor() noexcept {
  if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
  int processor = sched_getcpu();
  if (processor < 0 || !CPU_ISSET(processor, &before_)) return;
  claim_ = claim(processor);
  for (int other = 0; claim_ < 0 && other < CPU_SETSIZE; ++other) {
    if (!CPU_ISSET(other, &before_)) continue;
    claim_ = claim(other);
    if (claim_ >= 0) processor = other;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  bound_ = sched_setaffinity(0, sizeof one, &one) == 0;
}

OneProcessor::~OneProcessor() {
  if (bound_) sched_setaffinity(0, sizeof before_, &before_);
  if (claim_ >= 0) ::close(claim_);
}

}  // namespace vma
