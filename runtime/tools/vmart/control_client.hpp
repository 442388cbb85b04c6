#pragma once

#include <boost/json/object.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace vma {

/// Which runtime a command is for.
struct ControlChoice {
  int pid = 0;         ///< 0: not chosen.
  std::string socket;  ///< Empty: not chosen.
};

/// A connection to a runtime's control socket. One thread.
class ControlClient {
 public:
  /// To the chosen one, else to the only one that there is. Throws: Error{invalid_argument} where
  /// there is none, or several, which it lists, and where the socket, its folder or the process
  /// that answers belongs to another user (but root), or others may write there.
  explicit ControlClient(const ControlChoice& choice);
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  /// The answer's "ok". Throws: Error{busy} if none comes within ten seconds, {driver_gone} if the
  /// runtime hangs up, and std::runtime_error with the runtime's own words where it refused.
  boost::json::object ask(const boost::json::object& request);
  const std::string& path() const noexcept { return path_; }

 private:
  std::string read_line();
  std::string path_, input_;
  int descriptor_ = -1;
};

}  // namespace vma
