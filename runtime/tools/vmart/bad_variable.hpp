#pragma once

#include <functional>
#include <string>
#include <vector>

namespace vma {

/// Finds the VMART_* environment variables that make something fail, by retrying without each one.
/// Faulty ones stay unset in this process. One thread.
class VariableBlame {
 public:
  /// Runs `body`; if it throws an Error, runs it again without each variable in turn. Throws: the
  /// Error if no variable causes it.
  void run(const std::function<void()>& body);

  /// Each says what failed and which variable to correct.
  const std::vector<std::string>& problems() const noexcept { return problems_; }

 private:
  std::vector<std::string> problems_;
};

}  // namespace vma
