#pragma once

#include <boost/json/object.hpp>

#include <string>
#include <string_view>

namespace vma {

/// A directory for a test, removed with what is in it.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// A peer of a control socket that says what it likes. Reads give up after twenty seconds.
class ControlPeer {
 public:
  explicit ControlPeer(const std::string& path);
  ~ControlPeer();
  ControlPeer(const ControlPeer&) = delete;
  ControlPeer& operator=(const ControlPeer&) = delete;

  /// False where nobody listened.
  bool connected() const { return connected_; }
  /// False if the server has hung up meanwhile.
  bool send(std::string_view bytes);
  /// As much as goes without waiting, false if the server has hung up. Adds to `sent`.
  bool send_some(std::string_view bytes, std::size_t& sent);
  void end_of_requests();
  /// A line without its end; empty once the server has hung up.
  std::string read_line();
  /// Whether the server hangs up within the limit; skips what it says before.
  bool hangs_up();
  /// The answer to one request.
  boost::json::object ask(std::string_view request);

 private:
  int descriptor_;
  bool connected_;
  std::string input_;
};

}  // namespace vma
