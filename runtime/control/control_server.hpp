#pragma once

#include "control/control_limits.hpp"
#include "control/control_target.hpp"

#include <memory>
#include <string>

namespace boost::asio {
class io_context;
}

namespace vma {

/// The control socket: lets a user's own processes look at a runtime and steer it, by JSON lines
/// over a Unix socket of mode 0600. Off unless VMART_CONTROL says where (see `control_path`).
///
/// All work is done on the thread that runs `context`, which calls the target too; that thread is
/// the caller's. Construct, close and destroy it on that thread, or while nobody runs the context.
/// In a forked child, where that thread does not exist, closing does nothing: sockets, epoll set
/// and path are shared with the parent, and the child closes none of them before it executes
/// another program, which inherits none.
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

/// A server where `setting`, the value of VMART_CONTROL, asks for one. Null where it asks for none,
/// and where none can be: that is logged, and the runtime goes on without control.
std::unique_ptr<ControlServer> open_control(boost::asio::io_context& context, ControlTarget& target,
                                            const char* setting) noexcept;

}  // namespace vma
