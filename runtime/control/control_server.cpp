#include "control/control_server.hpp"

#include "base/log.hpp"
#include "control/control_protocol.hpp"
#include "control/control_socket.hpp"

#include <vma/error.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace vma {

namespace asio = boost::asio;

ControlConnection::ControlConnection(Socket socket, ControlTarget& target,
                                     const ControlLimits& limits, std::shared_ptr<RequestRate> rate)
    : socket_(std::move(socket)),
      idle_(socket_.get_executor()),
      target_(target),
      limits_(limits),
      rate_(std::move(rate)) {}

template <typename Body>
void ControlConnection::at_wall(Body&& body) noexcept try {
  if (!closed_) body();
} catch (const std::exception& error) {
  log(LogLevel::warn, "control: closed a connection: {}", error.what());
  close();
} catch (...) {
  close();
}

void ControlConnection::start() {
  at_wall([this] {
    restart_idle_timer();
    read();
  });
}

void ControlConnection::close() noexcept {
  if (closed_) return;
  closed_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
  try {
    idle_.cancel();
  } catch (...) {  // The timer's handler will find the connection closed.
  }
}

void ControlConnection::refuse(std::string_view kind, std::string_view message) {
  at_wall([&] {
    last_words_ = true;
    output_bytes_ = 0;  // Makes room for the reason even if the queue is full.
    send(control_error_line(kind, message));
  });
}

void ControlConnection::read() {
  asio::async_read_until(
      socket_, asio::dynamic_buffer(input_, limits_.request_bytes_max), '\n',
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t bytes) {
        self->at_wall([&] { self->read_done(error, bytes); });
      });
}

void ControlConnection::read_done(const boost::system::error_code& error, std::size_t bytes) {
  if (last_words_) return;
  if (error == asio::error::not_found) {
    refuse("invalid_argument",
           fmt::format("a request may have at most {} bytes", limits_.request_bytes_max));
    return;
  }
  if (error) {  // If the peer has only stopped sending, pending answers are sent first.
    last_words_ = true;
    if (!writing_) close();
    return;
  }
  if (!rate_->allows_one()) {
    refuse("busy", fmt::format("more than {} requests a second", limits_.requests_a_second));
    return;
  }
  restart_idle_timer();
  answer(std::string_view(input_).substr(0, bytes - 1));
  input_.erase(0, bytes);
  // Returns to the loop even if the next line has already arrived, so that other handlers run
  // first.
  if (!last_words_ && !closed_) read();
}

void ControlConnection::answer(std::string_view line) {
  ControlAnswer answer = answer_request(target_, line);
  if (answer.garbage && ++bad_requests_ >= limits_.bad_requests_max) last_words_ = true;
  send(std::move(answer.line));
}

bool RequestRate::allows_one() {
  refill();
  if (allowance_ < 1) return false;
  allowance_ -= 1;
  return true;
}

bool RequestRate::is_full() {
  refill();
  return allowance_ == limits_.requests_at_once;
}

void RequestRate::refill() {
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> passed = now - refilled_;
  refilled_ = now;
  allowance_ =
      std::min(limits_.requests_at_once, allowance_ + passed.count() * limits_.requests_a_second);
}

void ControlConnection::send(std::string line) {
  if (output_bytes_ + line.size() > limits_.output_bytes_max) {
    log(LogLevel::info, "control: closed a connection whose peer does not read the answers");
    close();
    return;
  }
  output_bytes_ += line.size();
  output_.push_back(std::move(line));
  if (!writing_) write();
}

void ControlConnection::write() {
  writing_ = true;
  asio::async_write(
      socket_, asio::buffer(output_.front()),
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
        self->at_wall([&] { self->write_done(error); });
      });
}

void ControlConnection::write_done(const boost::system::error_code& error) {
  writing_ = false;
  if (error) return close();
  output_bytes_ -= std::min(output_bytes_, output_.front().size());
  output_.pop_front();
  restart_idle_timer();
  if (!output_.empty()) {
    write();
  } else if (last_words_) {
    close();
  }
}

void ControlConnection::restart_idle_timer() {
  idle_.expires_after(limits_.idle_limit);
  idle_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self) self->close();
  });
}

namespace asio = boost::asio;
using Protocol = asio::local::stream_protocol;

/// Kept alive by its own handlers, which do nothing once it is closed.
struct ControlServer::State : std::enable_shared_from_this<ControlServer::State> {
  State(asio::io_context& context, ControlTarget& called, const std::string& path,
        const ControlLimits& allowed)
      : target(called), limits(allowed), socket(path), acceptor(context), retry(context) {
    acceptor.assign(Protocol(), socket.release());
  }

  void accept();
  void accepted(const boost::system::error_code& error, Protocol::socket peer);
  void serve(Protocol::socket peer);
  std::shared_ptr<RequestRate> rate_of(const ucred& who);
  void accept_later();
  void close() noexcept;

  ControlTarget& target;
  const ControlLimits limits;
  ControlSocket socket;
  Protocol::acceptor acceptor;
  asio::steady_timer retry;
  std::vector<std::shared_ptr<ControlConnection>> connections;
  /// By user and process: a process gets no more by connecting again.
  std::map<std::pair<uid_t, pid_t>, std::shared_ptr<RequestRate>> rates;
  const pid_t owner = getpid();
  bool stranger_logged = false, closed = false;
};

void ControlServer::State::accept() {
  acceptor.async_accept(
      [self = shared_from_this()](const boost::system::error_code& error, Protocol::socket peer) {
        if (self->closed) return;
        try {
          self->accepted(error, std::move(peer));
        } catch (const std::exception& failure) {
          log(LogLevel::warn, "control: {}", failure.what());
          self->accept_later();
        }
      });
}

void ControlServer::State::accepted(const boost::system::error_code& error, Protocol::socket peer) {
  if (error) {
    // Most likely no descriptors are left, so an immediate retry would only spin.
    log(LogLevel::info, "control: accept: {}", error.message());
    accept_later();
    return;
  }
  serve(std::move(peer));
  accept();
}

void ControlServer::State::serve(Protocol::socket peer) {
  const std::optional<ucred> who = peer_of(peer.native_handle());
  if (!who || !may_control(*who, geteuid())) {
    if (!std::exchange(stranger_logged, true)) {
      log(LogLevel::warn, "control: refused user {}; further refusals are not logged",
          who ? static_cast<long>(who->uid) : -1L);
    }
    return;  // The destructor of `peer` closes the connection.
  }
  std::erase_if(connections, [](const auto& connection) { return connection->closed(); });
  auto connection =
      std::make_shared<ControlConnection>(std::move(peer), target, limits, rate_of(*who));
  if (connections.size() >= limits.connections_max) {
    connection->refuse("busy", fmt::format("{} connections are open", connections.size()));
    return;
  }
  connections.push_back(connection);
  connection->start();
}

std::shared_ptr<RequestRate> ControlServer::State::rate_of(const ucred& who) {
  std::erase_if(rates, [](const auto& known) {
    return known.second.use_count() == 1 && known.second->is_full();
  });
  std::shared_ptr<RequestRate>& rate = rates[{who.uid, who.pid}];
  if (!rate) rate = std::make_shared<RequestRate>(limits);
  return rate;
}

void ControlServer::State::accept_later() {
  try {
    retry.expires_after(std::chrono::milliseconds(200));
    retry.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (error || self->closed) return;
      try {
        self->accept();
      } catch (const std::exception& failure) {
        log(LogLevel::warn, "control: {}", failure.what());
        self->accept_later();
      }
    });
  } catch (const std::exception& failure) {
    log(LogLevel::error, "control: accepts no further connections: {}", failure.what());
  }
}

void ControlServer::State::close() noexcept {
  if (closed) return;
  closed = true;
  socket.remove();
  boost::system::error_code ignored;
  acceptor.close(ignored);
  try {
    retry.cancel();
  } catch (...) {  // The timer's handler will find the server closed.
  }
  for (const auto& connection : connections) connection->close();
  connections.clear();
}

ControlServer::ControlServer(asio::io_context& context, ControlTarget& target,
                             const std::string& path, const ControlLimits& limits)
    : state_(std::make_shared<State>(context, target, path, limits)) {
  state_->accept();
}

ControlServer::~ControlServer() {
  close();
  if (state_ && state_->owner != getpid()) {
    // In a forked child, destructors of sockets would change the parent's epoll set. The state is
    // leaked instead; the kernel reclaims it when the child ends.
    static_cast<void>(new (std::nothrow) std::shared_ptr<State>(state_));
  }
}

void ControlServer::close() noexcept {
  if (state_->owner == getpid()) state_->close();
}

void ControlServer::remove_path() noexcept {
  state_->socket.remove();
}

const std::string& ControlServer::path() const noexcept {
  return state_->socket.path();
}

std::unique_ptr<ControlServer> open_control(asio::io_context& context, ControlTarget& target,
                                            const char* setting) noexcept try {
  const std::optional<std::string> path = control_path(setting);
  if (!path) return nullptr;
  auto server = std::make_unique<ControlServer>(context, target, *path);
  log(LogLevel::info, "control: listening at {}", server->path());
  return server;
} catch (const std::exception& error) {
  log(LogLevel::warn, "no control socket: {}", error.what());
  return nullptr;
}

}  // namespace vma
