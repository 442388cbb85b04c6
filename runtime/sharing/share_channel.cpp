#include "sharing/share_channel.hpp"

#include "base/process_exit.hpp"

#include <fmt/format.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace vma {
namespace {

// The kernel puts the sender first. Descriptors for which no space is left never become this
// process's.
constexpr std::size_t sender_bytes = CMSG_SPACE(sizeof(ucred));
constexpr std::size_t rights_bytes = CMSG_SPACE(sizeof(int) * chunks_in_message_max);

constexpr std::int64_t poll_ms_max = 60'000;
constexpr std::int64_t unwatched_poll_ms_max = 100;  // Nothing wakes it when the peer ends.

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

/// The kernel cuts the list where there is no space, and when this process may open no more.
Error cut_off(ShareChannel::Takes takes) {
  if (takes == ShareChannel::Takes::bytes) return gone("sent descriptors that nobody asked for");
  return Error(ErrorKind::out_of_memory, import_call,
               "not all descriptors of the memory could be received; raise this process's limit "
               "of open files (ulimit -n), or use larger chunks");
}

/// What came beside the bytes of a message.
struct Beside {
  std::vector<Descriptor> descriptors;
  pid_t sender = -1;
};

/// Takes over what arrived, so that none of it is lost whatever else is wrong with the message.
/// Requires: there is capacity for the descriptors.
void take_over(msghdr& header, Beside& beside) noexcept {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET) continue;
    if (part->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
      beside.sender = sender.pid;
    }
    if (part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int value = -1;
      std::memcpy(&value, CMSG_DATA(part) + i * sizeof value, sizeof value);
      beside.descriptors.emplace_back(value);
    }
  }
}

}  // namespace

ShareStop::ShareStop() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) throw failed("eventfd");
}

void ShareStop::raise() noexcept {
  eventfd_write(event_.get(), 1);
}

bool ShareStop::raised() const noexcept {
  pollfd looked{event_.get(), POLLIN, 0};
  return poll(&looked, 1, 0) > 0;
}

void ShareStop::check() const {
  if (!raised()) return;
  throw Error(ErrorKind::driver_gone, import_call, "the runtime was shut down");
}

ShareChannel::ShareChannel(Descriptor socket)
    : socket_(std::move(socket)),
      peer_(SocketPeer::of(socket_.get())),
      owner_(ProcessExit::process()) {
  const int yes = 1;
  if (!peer_ || setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0) {
    throw gone("has no credentials");
  }
}

ShareChannel& ShareChannel::operator=(ShareChannel&& other) noexcept {
  if (this == &other) return *this;
  end();
  socket_ = std::move(other.socket_);
  peer_ = std::move(other.peer_);
  owner_ = other.owner_;
  stop_ = other.stop_;
  return *this;
}

void ShareChannel::end() noexcept {
  // Forked children may have the socket open, too, and must not end it for their parent.
  if (socket_ && owner_ == ProcessExit::process()) ::shutdown(socket_.get(), SHUT_RDWR);
  socket_ = Descriptor();
}

ShareChannel ShareChannel::connect(const std::string& path, TimePoint deadline,
                                   const ShareStop* stop) {
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
    if (stop != nullptr) stop->check();
    poll.pause();
  }
  ShareChannel channel(std::move(made));
  channel.stop_ = stop;
  return channel;
}

bool ShareChannel::try_send(const ShareMessage& message) {
  std::vector<std::byte> bytes = encode(message);
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, rights_bytes> control{};
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

std::optional<ShareMessage> ShareChannel::try_receive(Takes takes) {
  std::array<std::byte, share_message_bytes_max> bytes;
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, sender_bytes + rights_bytes> control;
  Beside beside;
  beside.descriptors.reserve(control.size() / sizeof(int));
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = takes == Takes::descriptors ? control.size() : sender_bytes;
  ssize_t size = 0;
  // The kernel reports once, before what has arrived, that the other end closed without reading
  // all.
  bool reset = false;
  do {
    size = ::recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (size < 0 && (errno == EINTR || (errno == ECONNRESET && !std::exchange(reset, true))));
  if (size < 0 && would_block()) return std::nullopt;
  if (size < 0) throw failed("recvmsg");
  take_over(header, beside);
  if (size == 0) throw gone("has closed the connection");
  if (beside.sender != peer_->credentials().pid) {
    throw gone(fmt::format("is {}, but process {} sent a message over its connection",
                           peer_->credentials().pid, beside.sender));
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0) throw cut_off(takes);
  if ((header.msg_flags & MSG_TRUNC) != 0) throw gone("sent a message that is too long");
  ShareMessage message = decode(std::span(bytes).first(static_cast<std::size_t>(size)));
  message.descriptors = std::move(beside.descriptors);
  const std::size_t due = message.kind == ShareKind::chunks ? message.chunks.size()
                          : message.kind == ShareKind::move ? 1
                                                            : 0;
  if (message.descriptors.size() != due) throw gone("sent a wrong number of descriptors");
  return message;
}

void ShareChannel::refuse(ErrorKind kind, std::string_view text) noexcept {
  try {
    ShareMessage refusal{.kind = ShareKind::refusal};
    refusal.error = kind;
    refusal.text = text;
    if (socket_) try_send(refusal);
  } catch (const std::exception&) {  // It is gone, too.
  }
  end();
}

void ShareChannel::wait(short events, TimePoint deadline) const {
  if (wait_by(events, deadline)) return;
  throw Error(ErrorKind::busy, import_call,
              "the other process did not answer in time; it may be stopped or overloaded");
}

/// False at the deadline.
bool ShareChannel::wait_by(short events, TimePoint deadline) const {
  const SteadyClock clock;
  const int stop = stop_ == nullptr ? -1 : stop_->native();
  const std::int64_t slice_ms = peer_->watch() < 0 ? unwatched_poll_ms_max : poll_ms_max;
  while (true) {
    if (stop_ != nullptr) stop_->check();
    const TimePoint now = clock.now();
    if (now >= deadline) return false;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
    pollfd waited[] = {{socket_.get(), events, 0}, {peer_->watch(), POLLIN, 0}, {stop, POLLIN, 0}};
    const int ready =
        ::poll(waited, std::size(waited), static_cast<int>(std::min<std::int64_t>(left, slice_ms)));
    if (ready < 0 && errno != EINTR) throw failed("poll");
    if (waited[0].revents != 0) return true;
    if (!peer_->ended()) continue;
    // What the process sent before its end counts, also if it came after the poll above.
    if (::poll(waited, 1, 0) > 0) return true;
    throw gone("has ended");
  }
}

void ShareChannel::send(const ShareMessage& message, TimePoint deadline) {
  while (!try_send(message)) wait(POLLOUT, deadline);
}

ShareMessage ShareChannel::receive(TimePoint deadline, Takes takes) {
  while (true) {
    if (auto message = try_receive(takes)) return std::move(*message);
    wait(POLLIN, deadline);
  }
}

std::optional<ShareMessage> ShareChannel::try_receive_by(TimePoint deadline, Takes takes) {
  auto message = try_receive(takes);
  if (message || !wait_by(POLLIN, deadline)) return message;
  return try_receive(takes);
}

bool ShareChannel::hung_up() const noexcept {
  pollfd looked{socket_.get(), 0, 0};
  return !socket_ || ::poll(&looked, 1, 0) < 0 || (looked.revents & (POLLHUP | POLLERR)) != 0 ||
         peer_->ended();
}

}  // namespace vma
