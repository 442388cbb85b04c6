#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace vma {

/// Another program that runs beside a measurement and ends with this object. Its standard input is
/// a pipe, which closes then; if the program does not end soon after that, it is terminated.
class BesideProcess {
 public:
  /// Throws: std::runtime_error if the program cannot be started.
  explicit BesideProcess(const std::vector<std::string>& command);
  ~BesideProcess();
  BesideProcess(const BesideProcess&) = delete;
  BesideProcess& operator=(const BesideProcess&) = delete;

  /// Throws: std::runtime_error if the program has already ended.
  void require_running();
  /// Blocks: until the program has written a line, which it does once it is running.
  void await_line();

 private:
  void close_pipes() noexcept;

  std::string name_;
  int to_child_ = -1;
  int from_child_ = -1;
  pid_t child_ = -1;
};

}  // namespace vma
