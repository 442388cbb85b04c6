#pragma once

#include "memory/memory.hpp"
#include "sharing/place_names.hpp"
#include "sharing/share_channel.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace vma {

/// One process that imports an allocation: answers its questions, then stands for its import until
/// it ends. From the first handle that leaves until the end, the process is in the allocation's
/// `ImporterList`.
///
/// Runs on the thread of its context. What would have to wait, for a move or for the turn for slow
/// calls, is retried instead. Exceptions end at its handlers: the process is told, and the
/// connection ends.
class ExportConnection : public std::enable_shared_from_this<ExportConnection> {
 public:
  /// Requires: `memory` and `places` outlive it. Takes over the socket.
  ExportConnection(boost::asio::io_context& context, Memory& memory, const PlaceNames& places,
                   std::shared_ptr<Allocation> allocation, Descriptor socket,
                   const ImportingProcess& who);
  ~ExportConnection();

  /// The process has until `limit` from now to import. With a `verdict`, that is the answer to its
  /// first question. (If the connection ended before, the process might not get to read it.)
  void start(std::chrono::milliseconds limit, std::optional<Error> verdict = std::nullopt);
  bool refused() const noexcept { return verdict_.has_value(); }
  /// The process is not counted any more. Idempotent.
  void close() noexcept;
  bool closed() const noexcept { return closed_; }

 private:
  enum class State { greeting, offered, imported };

  /// Tells the process why it gets nothing, and ends.
  void refuse(ErrorKind kind, const std::string& text) noexcept;
  template <typename Body>
  void at_wall(Body&& body) noexcept;
  void wait_to_read();
  void read();
  void handle(const ShareMessage& message);
  void until_done(std::function<bool()> attempt);
  bool admit();
  void check_exportable() const;
  bool export_chunks(std::uint64_t first);
  void send(const ShareMessage& message);

  Memory& memory_;
  const PlaceNames& places_;
  const std::shared_ptr<Allocation> allocation_;
  const ImportingProcess who_;
  ShareChannel channel_;
  /// Waits for the channel's socket, which it does not own.
  boost::asio::posix::stream_descriptor watched_;
  boost::asio::steady_timer limit_, retry_;
  std::optional<Error> verdict_;
  State state_ = State::greeting;
  std::uint64_t importer_ = 0;  // In the list; 0 for none.
  bool closed_ = false;
};

}  // namespace vma
