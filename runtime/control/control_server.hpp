#pragma once

#include "control/control_connection.hpp"
#include "control/control_target.hpp"

#include <memory>
#include <string>

namespace boost::asio {
class io_context;
}

namespace vma {

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
