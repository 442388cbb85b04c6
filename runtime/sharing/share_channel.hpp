#pragma once

#include "base/clock.hpp"
#include "control/control_socket.hpp"
#include "control/descriptor.hpp"
#include "sharing/share_protocol.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace vma {

/// Ends the waits of channels. Any thread.
class ShareStop {
 public:
  /// Throws: Error{out_of_memory} without descriptors left.
  ShareStop();
  /// From now on, every wait throws.
  void raise() noexcept;
  bool raised() const noexcept;
  /// Throws: Error{driver_gone} once raised.
  void check() const;
  int native() const noexcept { return event_.get(); }

 private:
  Descriptor event_;
};

/// One end of a connection between an exporter and an importer: passes whole messages with their
/// descriptors. No call blocks without a deadline. Deadlines are of the processor's clock, because
/// the other process does not know the time of a simulated machine.
///
/// Both ends belong to one process each: a forked child has their descriptors too, but what it
/// sends is refused, and what it closes stays open for its parent. The end of the owner ends the
/// connection, whoever else has it open.
///
/// One thread at a time. Every call throws Error{peer_failure} once the other process has closed
/// its end or died, and for messages that are not of the protocol.
class ShareChannel {
 public:
  /// What the next message may bring.
  enum class Takes { bytes, descriptors };

  ShareChannel() = default;
  /// Takes over a connected, non-blocking socket of type SOCK_SEQPACKET. Throws:
  /// Error{peer_failure} if the kernel does not say who is at the other end.
  explicit ShareChannel(Descriptor socket);
  /// Throws: Error{peer_failure} if nobody listens at the path; {invalid_argument} for a path that
  /// cannot be one; {busy} after the deadline. `stop` outlives the channel's waits; null for none.
  static ShareChannel connect(const std::string& path, TimePoint deadline,
                              const ShareStop* stop = nullptr);
  ShareChannel(ShareChannel&& other) noexcept = default;
  ShareChannel& operator=(ShareChannel&& other) noexcept;
  ~ShareChannel() { end(); }

  int native() const noexcept { return socket_.get(); }
  /// Requires: it has a socket.
  const SocketPeer& peer() const { return *peer_; }

  /// False if the other process has not read what was sent before; then nothing was sent.
  bool try_send(const ShareMessage& message);
  /// None if nothing has arrived. Descriptors that arrive without being expected are closed before
  /// this process gets them, and the message is refused.
  std::optional<ShareMessage> try_receive(Takes takes = Takes::bytes);
  /// The same, waiting for one until `deadline`.
  std::optional<ShareMessage> try_receive_by(TimePoint deadline, Takes takes);
  /// Whether the other end was closed, or its process has ended.
  bool hung_up() const noexcept;
  /// As `try_receive`, waiting. This and `send` throw Error{busy} after the deadline.
  ShareMessage receive(TimePoint deadline, Takes takes = Takes::bytes);
  void send(const ShareMessage& message, TimePoint deadline);
  /// Sends why there is nothing, if there is room for it, and ends. What was sent arrives although
  /// the connection has ended.
  void refuse(ErrorKind kind, std::string_view text) noexcept;

 private:
  void wait(short events, TimePoint deadline) const;
  bool wait_by(short events, TimePoint deadline) const;
  void end() noexcept;

  Descriptor socket_;
  std::optional<SocketPeer> peer_;
  int owner_ = 0;  // The process that may end the connection.
  const ShareStop* stop_ = nullptr;
};

}  // namespace vma
