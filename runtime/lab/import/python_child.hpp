#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// Replaces this process by python3 with `vmart.lab ARGUMENTS...`, of the Python package beside
/// this program. Throws: Error{unsupported} that says what to install, if there is no python3.
[[noreturn]] void become_python(std::vector<std::string> arguments);

/// python3 with `vmart.lab ARGUMENTS...`, as a child whose output is read while it runs. Its
/// standard input and error are ours, and no signal is blocked in it. Not thread-safe.
class PythonChild {
 public:
  /// Throws: as `become_python`.
  explicit PythonChild(std::vector<std::string> arguments);
  /// Kills it if it is still running.
  ~PythonChild();
  PythonChild(const PythonChild&) = delete;
  PythonChild& operator=(const PythonChild&) = delete;

  /// A path under which its standard output can be opened and read once.
  std::string output() const;
  /// Skips what is left of the output, waits for the end, and returns the outcome that the child
  /// tells, empty if it tells none. Throws: Error{invalid_argument} that says why it has failed; if
  /// the child does not tell, that error begins with `purpose`.
  boost::json::object finish(std::string_view purpose);

 private:
  int output_ = -1, outcome_ = -1;  // Files.
  pid_t child_ = 0;                 // 0 once it has been waited for.
};

/// Runs `vmart.lab ARGUMENTS...` and returns the JSON that it prints. Throws: as `PythonChild`.
boost::json::value python_answer(std::vector<std::string> arguments);

}  // namespace vma
