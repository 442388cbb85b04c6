#pragma once

#include "base/clock.hpp"
#include "control/descriptor.hpp"
#include "sharing/share_protocol.hpp"

#include <optional>
#include <string>

namespace vma {

/// One end of a connection between an exporter and an importer: passes whole messages with their
/// descriptors. No call blocks without a deadline. Deadlines are of the processor's clock, because
/// the other process does not know the time of a simulated machine.
///
/// One thread at a time. Every call throws Error{peer_failure} once the other process has closed
/// its end or died, and for messages that are not of the protocol.
class ShareChannel {
 public:
  /// Takes over a connected, non-blocking socket of type SOCK_SEQPACKET.
  explicit ShareChannel(Descriptor socket) : socket_(std::move(socket)) {}
  /// Throws: Error{peer_failure} if nobody listens at the path; {invalid_argument} for a path that
  /// cannot be one; {busy} after the deadline.
  static ShareChannel connect(const std::string& path, TimePoint deadline);

  int native() const noexcept { return socket_.get(); }

  /// False if the other process has not read what was sent before; then nothing was sent.
  bool try_send(const ShareMessage& message);
  /// None if nothing has arrived.
  std::optional<ShareMessage> try_receive();
  /// The same, waiting. Both throw Error{busy} after the deadline.
  void send(const ShareMessage& message, TimePoint deadline);
  ShareMessage receive(TimePoint deadline);

 private:
  void wait(short events, TimePoint deadline) const;

  Descriptor socket_;
};

}  // namespace vma
