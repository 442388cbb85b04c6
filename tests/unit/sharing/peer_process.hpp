#pragma once

#include "control/descriptor.hpp"

#include <sys/types.h>

#include <string>
#include <vector>

namespace vma {

/// A running `share_peer`. Every wait ends after two minutes, with an answer that no test expects.
class PeerProcess {
 public:
  /// Passes the arguments on to it.
  explicit PeerProcess(std::vector<std::string> arguments = {});
  /// Kills it if it has not ended.
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  pid_t id() const { return id_; }
  /// Sends a line and returns the answer; "ended" once the process has.
  std::string ask(const std::string& line);
  void tell(const std::string& line);
  std::string answer();
  /// Returns once the process stands, or goes on.
  void stop();
  void go_on();
  /// Kills it without a chance to clean up; returns once it is gone.
  void kill();
  /// Ends its input; returns its exit status, -1 if a signal ended it.
  int end();

 private:
  int wait_for_end();

  pid_t id_ = -1;
  Descriptor input_, output_;
  std::string read_;
};

}  // namespace vma
