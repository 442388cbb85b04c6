#include "sharing/memory_export.hpp"

#include "base/log.hpp"
#include "sharing/export_connection.hpp"

#include <vma/error.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <fmt/format.h>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>

namespace vma {

namespace asio = boost::asio;

namespace {

SocketTerms socket_terms(const ExportRequest& request) {
  SocketTerms terms;
  terms.type = SOCK_SEQPACKET;
  terms.sweeps_once = true;                       // There may be hundreds.
  if (!request.users.empty()) terms.mode = 0666;  // Their credentials decide.
  return terms;
}

}  // namespace

/// Owns the listening socket.
struct MemoryExport::Acceptor {
  Acceptor(asio::io_context& context, Descriptor listening)
      : socket(std::move(listening)), watch(context, socket.get()), retry(context) {}
  ~Acceptor() {
    watch.release();
    // Forked children may have it open, too. Whoever waits to be accepted is disconnected.
    ::shutdown(socket.get(), SHUT_RDWR);
    while (Descriptor(accept()) || errno == EINTR || errno == ECONNABORTED) {
    }
  }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  /// -1 if there is none to accept.
  int accept() const noexcept {
    return ::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  }
  Descriptor socket;
  DescriptorWatch watch;
  asio::steady_timer retry;
};

MemoryExport::MemoryExport(asio::io_context& context, const ExportParts& parts,
                           std::shared_ptr<Allocation> allocation, const ExportRequest& request)
    : context_(context),
      parts_(parts),
      allocation_(std::move(allocation)),
      request_(request),
      places_(request.importers_max),
      socket_(request.path, socket_terms(request)) {
  Descriptor listening(socket_.release());
  acceptor_ = std::make_unique<Acceptor>(context, std::move(listening));
  ++allocation_->exports;
}

MemoryExport::~MemoryExport() {
  close();
}

void MemoryExport::close() noexcept {
  if (std::exchange(closed_, true)) return;
  socket_.remove();
  acceptor_.reset();  // Its handlers find the export closed.
  for (const auto& connection : connections_) connection->close();
  connections_.clear();
  --allocation_->exports;
}

void MemoryExport::start() {
  if (!closed_) wait_for_peer();
}

void MemoryExport::wait_for_peer() {
  acceptor_->watch.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->keep_accepting();
  });
}

/// After a failure, most likely because no descriptors are left, an immediate retry would spin.
void MemoryExport::wait_before_retry() {
  acceptor_->retry.expires_after(std::chrono::milliseconds(50));
  acceptor_->retry.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->keep_accepting();
  });
}

/// An export that could not wait any more would leave importers without an answer: it closes.
void MemoryExport::keep_accepting() noexcept {
  if (closed_) return;
  try {
    if (accept_one()) return wait_for_peer();
  } catch (const std::exception& failure) {
    log(LogLevel::warn, "export: {}", failure.what());
  }
  try {
    wait_before_retry();
  } catch (const std::exception& failure) {
    log(LogLevel::error, "the export at {} closes: {}", path(), failure.what());
    close();
  }
}

bool MemoryExport::accept_one() {
  Descriptor peer(acceptor_->accept());
  if (peer) {
    admit(ShareChannel(std::move(peer)));
    return true;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED)
    return true;
  log(LogLevel::info, "export: accept: {}", std::strerror(errno));
  return false;
}

void MemoryExport::admit(ShareChannel channel) {
  if (!may_import(channel.peer().credentials().uid)) return refuse_stranger(std::move(channel));
  std::erase_if(connections_, [](const auto& connection) { return connection->closed(); });
  // All that may import may connect before the first of them asks.
  constexpr std::size_t silent_more = 64;
  const std::size_t silent_max =
      std::min(request_.importers_max, SIZE_MAX - silent_more) + silent_more;
  const auto silent = static_cast<std::size_t>(std::ranges::count_if(
      connections_, [](const auto& connection) { return !connection->has_place(); }));
  if (silent >= silent_max) {
    return channel.refuse(ErrorKind::busy, "too many processes are connected and ask for nothing");
  }
  auto connection = std::make_shared<ExportConnection>(context_, parts_, places_, allocation_,
                                                       std::move(channel));
  connections_.push_back(connection);
  connection->start(request_.import_limit);
}

std::string MemoryExport::why_not_moving() const {
  for (const auto& connection : connections_) {
    if (std::string why = connection->why_not_moving(); !why.empty()) return why;
  }
  return {};
}

void MemoryExport::join(const std::shared_ptr<ExporterMoveState>& move) noexcept {
  for (const auto& connection : connections_) {
    if (connection->has_imported()) connection->join(move);
  }
}

void MemoryExport::ask_to_stop() noexcept {
  for (const auto& connection : connections_) connection->ask_to_stop();
}

bool MemoryExport::may_import(unsigned user) const {
  const ucred who{.pid = 0, .uid = user, .gid = 0};
  return may_control(who, geteuid()) || std::ranges::count(request_.users, user) > 0;
}

void MemoryExport::refuse_stranger(ShareChannel channel) noexcept {
  const unsigned user = channel.peer().credentials().uid;
  try {
    if (!std::exchange(stranger_logged_, true)) {
      log(LogLevel::warn, "export: refused user {}; further refusals are not logged", user);
    }
    channel.refuse(ErrorKind::not_permitted,
                   fmt::format("user {} may not import; the exporter has to name that user in "
                               "ExportOptions::users",
                               user));
  } catch (const std::exception&) {  // The end of the connection says it, too.
  }
}

}  // namespace vma
