#pragma once

#include "control/control_target.hpp"

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

namespace boost::asio {
class io_context;
}

namespace vma {

/// Limits for a peer of the control socket. A peer that exceeds one is informed and disconnected.
struct ControlLimits {
  std::size_t request_bytes_max = std::size_t{64} << 10;  ///< Of one line, including the newline.
  std::size_t connections_max = 16;
  double requests_a_second = 500;  ///< Of a process, on all its connections, on average.
  double requests_at_once = 1000;  ///< Size of a burst.
  /// Answers that the peer has not read yet. Must exceed the size of one answer with a full page.
  std::size_t output_bytes_max = std::size_t{4} << 20;
  int bad_requests_max = 8;                       ///< Invalid lines, in total.
  std::chrono::milliseconds idle_limit{300'000};  ///< Without a request, or with unread output.
};

/// How many requests a process may still make, on whatever connections. The loop's thread.
class RequestRate {
 public:
  explicit RequestRate(const ControlLimits& limits)
      : limits_(limits), allowance_(limits.requests_at_once) {}
  bool allows_one();
  /// Whether it is as if the process had made none.
  bool is_full();

 private:
  void refill();

  const ControlLimits limits_;
  double allowance_;
  std::chrono::steady_clock::time_point refilled_ = std::chrono::steady_clock::now();
};

/// One peer of the control socket: reads lines, answers them in order, and enforces the limits.
/// Runs only on the loop's thread. Its handlers keep it alive; once it is closed, they do nothing,
/// and the target is no longer called.
class ControlConnection : public std::enable_shared_from_this<ControlConnection> {
 public:
  using Socket = boost::asio::local::stream_protocol::socket;

  ControlConnection(Socket socket, ControlTarget& target, const ControlLimits& limits,
                    std::shared_ptr<RequestRate> rate);
  void start();
  /// Tells the peer the reason, and closes the connection once the message is sent.
  void refuse(std::string_view kind, std::string_view message);
  void close() noexcept;
  bool closed() const noexcept { return closed_; }

 private:
  // Runs a handler's body. An exception closes the connection and is not passed on, since the loop
  // also serves others.
  template <typename Body>
  void at_wall(Body&& body) noexcept;
  void read();
  void read_done(const boost::system::error_code& error, std::size_t bytes);
  void answer(std::string_view line);
  void send(std::string line);
  void write();
  void write_done(const boost::system::error_code& error);
  void restart_idle_timer();

  Socket socket_;
  boost::asio::steady_timer idle_;
  ControlTarget& target_;
  const ControlLimits limits_;
  std::string input_;
  std::deque<std::string> output_;  // The first one is being sent.
  std::size_t output_bytes_ = 0;
  const std::shared_ptr<RequestRate> rate_;
  int bad_requests_ = 0;
  bool writing_ = false, last_words_ = false, closed_ = false;
};

/// The control socket: lets a user's own processes inspect and control a runtime, by JSON lines
/// over a Unix socket of mode 0600. Off unless VMART_CONTROL is set (see `control_path`).
///
/// All work, including calls of the target, runs on the thread that runs `context`, which the
/// caller provides. Construct, close and destroy the server on that thread, or while no thread runs
/// the context. A forked child does not have that thread, and closing does nothing there: the
/// sockets, the epoll set and the path are shared with the parent. The child keeps the sockets open
/// until it executes another program, which does not inherit them.
class ControlServer {
 public:
  /// Requires: `context` and `target` outlive the server; the context may outlive it.
  /// Throws: like `ControlSocket`.
  ControlServer(boost::asio::io_context& context, ControlTarget& target, const std::string& path,
                const ControlLimits& limits = {});
  /// Calls `close`.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  /// Removes the path and ends all connections. Afterwards the target is not called any more.
  /// Idempotent.
  void close() noexcept;
  const std::string& path() const noexcept;
  /// Removes the path and nothing else. Any thread.
  void remove_path() noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Creates a server if `setting`, the value of VMART_CONTROL, requests one. Null if it does not, or
/// if creation fails: then the error is logged, and the runtime continues without control.
std::unique_ptr<ControlServer> open_control(boost::asio::io_context& context, ControlTarget& target,
                                            const char* setting) noexcept;

}  // namespace vma
