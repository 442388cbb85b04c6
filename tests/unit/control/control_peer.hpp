#pragma once

#include <boost/json/object.hpp>

#include <sys/types.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace vma {

/// A directory for a test, removed together with its contents.
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

/// Of the name itself, if it is a link.
mode_t mode_of(const std::string& path);

/// Sets a variable within a scope.
class Set {
 public:
  Set(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Set() { unsetenv(name_); }
  Set(const Set&) = delete;
  Set& operator=(const Set&) = delete;

 private:
  const char* const name_;
};

/// A client of a control socket that sends arbitrary bytes. Reads time out after twenty seconds.
class ControlPeer {
 public:
  explicit ControlPeer(const std::string& path);
  ~ControlPeer();
  ControlPeer(const ControlPeer&) = delete;
  ControlPeer& operator=(const ControlPeer&) = delete;

  /// False if nobody listened.
  bool connected() const { return connected_; }
  /// False if the server has hung up.
  bool send(std::string_view bytes);
  /// Sends as much as fits without blocking and adds it to `sent`. False if the server has hung up.
  bool send_some(std::string_view bytes, std::size_t& sent);
  void end_of_requests();
  /// A line without its line end; empty once the server has hung up.
  std::string read_line();
  /// Whether the server hangs up within the limit; skips what it sends before that.
  bool hangs_up();
  /// Sends one request and returns the answer.
  boost::json::object ask(std::string_view request);

 private:
  int descriptor_;
  bool connected_;
  std::string input_;
};

}  // namespace vma
