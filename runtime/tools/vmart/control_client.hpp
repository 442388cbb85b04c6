#pragma once

#include <boost/json/object.hpp>

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vma {

/// Which runtime a command addresses.
struct ControlChoice {
  int pid = 0;         ///< 0: not chosen.
  std::string socket;  ///< Empty: not chosen.
};

/// What a runtime answers to a request that it refuses, with its message.
class ControlRefusal : public std::runtime_error {
 public:
  ControlRefusal(const std::string& message, std::string kind)
      : std::runtime_error(message), kind_(std::move(kind)) {}
  /// As `to_string` of an ErrorKind.
  const std::string& kind() const noexcept { return kind_; }

 private:
  std::string kind_;
};

/// The sockets of all runtimes of this user that listen at the usual places.
std::vector<std::string> listening_sockets();

/// A connection to a runtime's control socket. One thread.
class ControlClient {
 public:
  /// Connects to the chosen runtime, or to the only one. Throws: Error{invalid_argument} if there
  /// is none; if there are several, which it lists; or if the socket, its folder or the answering
  /// process belongs to another user (except root), or others may write there.
  explicit ControlClient(const ControlChoice& choice);
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  /// Returns the answer's "ok". Throws: Error{busy} if no answer arrives within ten seconds,
  /// {driver_gone} if the runtime closes the connection, and ControlRefusal if it refused.
  boost::json::object ask(const boost::json::object& request);
  const std::string& path() const noexcept { return path_; }

 private:
  std::string read_line();
  std::string path_, input_;
  int descriptor_ = -1;
};

}  // namespace vma
