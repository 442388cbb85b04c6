#include "sharing/memory_export.hpp"

#include "base/log.hpp"
#include "sharing/export_connection.hpp"

#include <vma/error.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <fmt/format.h>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

namespace vma {

namespace asio = boost::asio;

namespace {

SocketTerms socket_terms(const ExportRequest& request) {
  SocketTerms terms;
  terms.type = SOCK_SEQPACKET;
  if (!request.users.empty()) terms.mode = 0666;  // Their credentials decide.
  return terms;
}

}  // namespace

struct MemoryExport::Acceptor {
  Acceptor(asio::io_context& context, int socket) : socket(context, socket), retry(context) {}
  asio::posix::stream_descriptor socket;
  asio::steady_timer retry;
};

MemoryExport::MemoryExport(asio::io_context& context, Memory& memory, const PlaceNames& places,
                           std::shared_ptr<Allocation> allocation, const ExportRequest& request)
    : context_(context),
      memory_(memory),
      places_(places),
      allocation_(std::move(allocation)),
      request_(request),
      socket_(request.path, socket_terms(request)),
      acceptor_(std::make_unique<Acceptor>(context, socket_.release())) {
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
  acceptor_->socket.async_wait(asio::posix::stream_descriptor::wait_read,
                               [self = shared_from_this()](const boost::system::error_code& error) {
                                 if (error || self->closed_) return;
                                 try {
                                   if (self->accept_one()) return self->wait_for_peer();
                                 } catch (const std::exception& failure) {
                                   log(LogLevel::warn, "export: {}", failure.what());
                                 }
                                 self->wait_before_retry();
                               });
}

/// After a failure, most likely because no descriptors are left, an immediate retry would spin.
void MemoryExport::wait_before_retry() {
  acceptor_->retry.expires_after(std::chrono::milliseconds(50));
  acceptor_->retry.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error && !self->closed_) self->wait_for_peer();
  });
}

bool MemoryExport::accept_one() {
  Descriptor peer(
      ::accept4(acceptor_->socket.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (peer) {
    admit(std::move(peer));
    return true;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED)
    return true;
  log(LogLevel::info, "export: accept: {}", std::strerror(errno));
  return false;
}

void MemoryExport::admit(Descriptor peer) {
  const std::optional<ucred> who = peer_of(peer.get());
  std::erase_if(connections_, [](const auto& connection) { return connection->closed(); });
  // Those that are refused stay connected until they have read why, but no more than may import.
  if (!who || connections_.size() >= 2 * request_.importers_max) return;
  const ImportingProcess process{who->pid, who->uid};
  auto connection = std::make_shared<ExportConnection>(context_, memory_, places_, allocation_,
                                                       std::move(peer), process);
  connections_.push_back(connection);
  connection->start(request_.import_limit, verdict_on(*who));
}

/// None for a process that may import.
std::optional<Error> MemoryExport::verdict_on(const ucred& who) {
  if (!may_control(who, geteuid()) && std::ranges::count(request_.users, who.uid) == 0) {
    if (!std::exchange(stranger_logged_, true)) {
      log(LogLevel::warn, "export: refused user {}; further refusals are not logged", who.uid);
    }
    return Error(ErrorKind::not_permitted, export_call,
                 fmt::format("user {} may not import; the exporter has to name that user in "
                             "ExportOptions::users",
                             who.uid));
  }
  const auto admitted = static_cast<std::size_t>(std::ranges::count_if(
      connections_, [](const auto& connection) { return !connection->refused(); }));
  if (admitted <= request_.importers_max) return std::nullopt;  // It is among them.
  return Error(ErrorKind::busy, export_call,
               fmt::format("{} processes have imported it, as many as ExportOptions::importers_max",
                           request_.importers_max));
}

}  // namespace vma
