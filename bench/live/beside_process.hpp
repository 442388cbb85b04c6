#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace vma {

/// Another program that runs beside a measurement and ends with the object. Its standard input is a
/// pipe that closes then; if it does not end by itself soon, it is terminated.
class BesideProcess {
 public:
  /// Throws: std::runtime_error if the program cannot be started.
  explicit BesideProcess(const std::vector<std::string>& command);
  ~BesideProcess();
  BesideProcess(const BesideProcess&) = delete;
  BesideProcess& operator=(const BesideProcess&) = delete;

  /// Throws: std::runtime_error if it has ended already.
  void require_running();
  /// Blocks: until the program has written a line, which it does when it is under way.
  void await_line();

 private:
  void close_pipes() noexcept;

  std::string name_;
  int to_child_ = -1;
  int from_child_ = -1;
  pid_t child_ = -1;
};

}  // namespace vma
