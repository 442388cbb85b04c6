#include "sharing/share_channel.hpp"

#include <fmt/format.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace vma {
namespace {

constexpr std::size_t control_bytes = CMSG_SPACE(sizeof(int) * chunks_in_message_max);

Error gone(std::string_view what) {
  return Error(ErrorKind::peer_failure, import_call, fmt::format("the other process {}", what));
}

Error failed(const char* call) {
  const int code = errno;
  if (code == EPIPE || code == ECONNRESET || code == ENOTCONN)
    return gone("has closed the connection");
  return Error(
      code == EMFILE || code == ENFILE || code == ETOOMANYREFS || code == ENOBUFS || code == ENOMEM
          ? ErrorKind::out_of_memory
          : ErrorKind::peer_failure,
      import_call, fmt::format("{}: {}", call, std::strerror(code)));
}

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK;
}

/// Takes over what arrived, so that none of it is lost whatever else is wrong with the message.
std::vector<Descriptor> descriptors_of(msghdr& header) {
  std::vector<Descriptor> descriptors;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int value = -1;
      std::memcpy(&value, CMSG_DATA(part) + i * sizeof value, sizeof value);
      descriptors.emplace_back(value);
    }
  }
  return descriptors;
}

}  // namespace

ShareChannel ShareChannel::connect(const std::string& path, TimePoint deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path ||
      path.find('\0') != std::string::npos) {
    throw Error(
        ErrorKind::invalid_argument, import_call,
        fmt::format("\"{}\" is no path of a socket; pass ExportedAllocation::path", path.c_str()));
  }
  path.copy(address.sun_path, path.size());
  Descriptor made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) throw failed("socket");
  const SteadyClock clock;
  Poll poll;
  while (::connect(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EINTR) continue;
    if (!would_block()) {
      throw Error(ErrorKind::peer_failure, import_call,
                  fmt::format("no process exports memory at {}: {}", path, std::strerror(errno)));
    }
    if (clock.now() >= deadline) {  // A local socket is refused so while its queue is full.
      throw Error(ErrorKind::busy, import_call,
                  fmt::format("the exporter does not take connections at {} in time", path));
    }
    poll.pause();
  }
  return ShareChannel(std::move(made));
}

bool ShareChannel::try_send(const ShareMessage& message) {
  std::vector<std::byte> bytes = encode(message);
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, control_bytes> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!message.descriptors.empty()) {
    std::vector<int> values;
    for (const Descriptor& descriptor : message.descriptors) values.push_back(descriptor.get());
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(sizeof(int) * values.size());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * values.size());
    std::memcpy(CMSG_DATA(rights), values.data(), sizeof(int) * values.size());
  }
  while (true) {
    if (::sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return true;
    if (errno == EINTR) continue;
    if (would_block()) return false;
    throw failed("sendmsg");
  }
}

std::optional<ShareMessage> ShareChannel::try_receive() {
  std::array<std::byte, share_message_bytes_max> bytes;
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, control_bytes> control;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t size = 0;
  // The kernel reports once, before what has arrived, that the other end closed without reading
  // all.
  bool reset = false;
  do {
    size = ::recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (size < 0 && (errno == EINTR || (errno == ECONNRESET && !std::exchange(reset, true))));
  if (size < 0 && would_block()) return std::nullopt;
  if (size < 0) throw failed("recvmsg");
  std::vector<Descriptor> descriptors = descriptors_of(header);
  if (size == 0) throw gone("has closed the connection");
  // The kernel also cuts the list when this process may open no more.
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    throw Error(ErrorKind::out_of_memory, import_call,
                "not all descriptors of the memory could be received; raise this process's limit "
                "of open files (ulimit -n), or use larger chunks");
  }
  if ((header.msg_flags & MSG_TRUNC) != 0) throw gone("sent a message that is too long");
  ShareMessage message = decode(std::span(bytes).first(static_cast<std::size_t>(size)));
  message.descriptors = std::move(descriptors);
  const std::size_t due = message.kind == ShareKind::chunks ? message.chunks.size() : 0;
  if (message.descriptors.size() != due) throw gone("sent a wrong number of descriptors");
  return message;
}

void ShareChannel::wait(short events, TimePoint deadline) const {
  const SteadyClock clock;
  pollfd waited{socket_.get(), events, 0};
  while (true) {
    const TimePoint now = clock.now();
    if (now >= deadline) {
      throw Error(ErrorKind::busy, import_call,
                  "the other process did not answer in time; it may be stopped or overloaded");
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
    const int ready = ::poll(&waited, 1, static_cast<int>(std::min<std::int64_t>(left, 60'000)));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw failed("poll");
  }
}

void ShareChannel::send(const ShareMessage& message, TimePoint deadline) {
  while (!try_send(message)) wait(POLLOUT, deadline);
}

ShareMessage ShareChannel::receive(TimePoint deadline) {
  while (true) {
    if (std::optional<ShareMessage> message = try_receive()) return std::move(*message);
    wait(POLLIN, deadline);
  }
}

}  // namespace vma
