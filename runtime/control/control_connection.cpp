#include "control/control_connection.hpp"

#include "base/log.hpp"
#include "control/control_protocol.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

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

}  // namespace vma
