#pragma once

#include "control/control_limits.hpp"
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
/// All work, including calls of the target, runs on the thread that runs `context`, which is the
/// caller's. Construct, close and destroy the server on that thread, or while no thread runs the
/// context. In a forked child, where that thread does not exist, closing does nothing: sockets,
/// epoll set and path are shared with the parent, and the child closes none of them before it
/// executes another program, which inherits none.
class ControlServer {
 public:
  /// Requires: `context` and `target` outlive the server; the context may outlive it.
  /// Throws: as `ControlSocket`.
  ControlServer(boost::asio::io_context& context, ControlTarget& target, const std::string& path,
                const ControlLimits& limits = {});
  /// Closes.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  /// Removes the path and ends all connections. The target is not called any more. Idempotent.
  void close() noexcept;
  const std::string& path() const noexcept;
  /// Removes the path and nothing else. Any thread.
  void remove_path() noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// A server if `setting`, the value of VMART_CONTROL, asks for one. Null if it asks for none, or if
/// creating it fails: that is logged, and the runtime continues without control.
std::unique_ptr<ControlServer> open_control(boost::asio::io_context& context, ControlTarget& target,
                                            const char* setting) noexcept;

}  // namespace vma
