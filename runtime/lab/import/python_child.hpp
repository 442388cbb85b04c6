#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace vma {

/// The environment for python3 to find the package vmart: ours, with our own Python folders at the
/// end of PYTHONPATH.
std::vector<std::string> python_environment();

/// `python3 -m vmart.lab` with arguments, as a child whose output is read while it runs. Its
/// standard input is ours. Not thread-safe.
class PythonChild {
 public:
  /// Throws: Error{unsupported} that says what to install, if there is no python3.
  explicit PythonChild(std::vector<std::string> arguments);
  /// Stops it if it is still running.
  ~PythonChild();
  PythonChild(const PythonChild&) = delete;
  PythonChild& operator=(const PythonChild&) = delete;

  /// A path under which its standard output can be opened and read once.
  std::string output() const;
  /// Waits for its end and returns what it printed on standard error. Throws:
  /// Error{invalid_argument} with that text, if it has failed. Call it when the output was read to
  /// its end.
  std::string finish();

 private:
  std::string messages() const;

  int output_ = -1, messages_ = -1;  // Files.
  pid_t child_ = 0;                  // 0 once it has been waited for.
};

/// Runs `python3 -m vmart.lab` with these arguments and returns its output. Throws: as
/// `PythonChild`.
std::string python_answer(std::vector<std::string> arguments);

}  // namespace vma
